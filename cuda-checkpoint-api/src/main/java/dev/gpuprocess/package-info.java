/**
 * Takes a running CUDA process off its GPU, puts it on disk, and brings it back.
 *
 * <p>Start at {@link dev.gpuprocess.GpuProcess}: {@code GpuProcess.of(pid)} gives a running
 * process, and each state has only the verbs that are legal in it. {@link
 * dev.gpuprocess.ProcessImage} is the process on disk. {@link dev.gpuprocess.GpuCheckpoints} holds
 * the drivers and the settings behind them.
 *
 * <p>Threads: state objects are immutable and may be shared. Two verbs on one process at a time are
 * refused, on different processes they run in parallel.
 *
 * <p>Failures: everything thrown is a {@link dev.gpuprocess.error.GpuCheckpointException}, except
 * for arguments that can never be right ({@link IllegalArgumentException}). Whatever fails, the
 * process runs on, or is durable on disk, or is suspended where {@link
 * dev.gpuprocess.GpuProcess#inspect} finds it.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess;
