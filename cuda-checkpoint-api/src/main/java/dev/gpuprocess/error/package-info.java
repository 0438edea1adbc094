/**
 * Everything that can go wrong, typed. The root is {@link
 * dev.gpuprocess.error.GpuCheckpointException}; its message is one sentence that says what to do,
 * and {@link dev.gpuprocess.error.Failure} holds the data behind it.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.error;
