/**
 * The memory of a suspended process, and what this library changes in the memory of a process for
 * that. For x86_64.
 *
 * <ul>
 *   <li>The gate ({@link dev.gpuprocess.internal.memory.LockGate}) extends the driver's lock to
 *       calls that the lock does not block. Driver 580 lets a locked process call {@code
 *       cuStreamQuery}, {@code cuCtxSynchronize} and a few others. They read memory that a
 *       checkpoint unmaps, and the process dies of SIGSEGV.
 *   <li>The hook ({@link dev.gpuprocess.internal.memory.DriverHook}) divides the copies of a
 *       checkpoint or restore among threads, and gives the driver prepared memory. The driver
 *       copies with the C library's {@code memcpy}, on one thread.
 *   <li>The save files ({@link dev.gpuprocess.internal.memory.SaveFiles}) hold the GPU memory of a
 *       suspended process. They go into an image without a copy by CRIU.
 * </ul>
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.memory;
