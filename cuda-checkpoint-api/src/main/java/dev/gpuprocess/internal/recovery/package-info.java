/** Mends what dead controllers left behind. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.recovery;
