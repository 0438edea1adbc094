/** Mends what controllers left that died. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.recovery;
