/**
 * Everything that can go wrong, as types. The root is {@link
 * dev.gpuprocess.error.GpuCheckpointException}; its message is one sentence that says what to do,
 * and {@link dev.gpuprocess.error.Failure} holds the data behind it. Below it are four groups,
 * depending on what the caller should do next: {@link dev.gpuprocess.error.RetryLaterException},
 * {@link dev.gpuprocess.error.FixAndRetryException}, {@link
 * dev.gpuprocess.error.ProcessUnfitException} and {@link
 * dev.gpuprocess.error.MachineUnfitException}. A type has further types only where callers react
 * differently; the causes within it are constants of its {@code Reason}, which {@link
 * dev.gpuprocess.error.GpuCheckpointException#reason} returns.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.error;
