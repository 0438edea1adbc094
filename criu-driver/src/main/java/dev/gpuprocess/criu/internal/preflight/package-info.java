/** Finds what CRIU would refuse to dump by reading {@code /proc}, before CRIU is started. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.criu.internal.preflight;
