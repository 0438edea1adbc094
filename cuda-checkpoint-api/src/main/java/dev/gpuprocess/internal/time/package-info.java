/** Deadlines and waiting. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.time;
