/** Deadlines, waiting, and lambdas that may fail. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.time;
