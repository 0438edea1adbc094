/**
 * What is changed in the libcuda of a process, from outside and for the time of a checkpoint: the
 * gate extends the driver's lock to calls that it does not keep out, and the hook divides the
 * driver's copies among threads. For x86_64.
 *
 * <p>Driver 580 lets a locked process go on calling {@code cuStreamQuery}, {@code cuCtxSynchronize}
 * and a few others. They read memory that a checkpoint unmaps, and the process dies of SIGSEGV. It
 * copies with the C library's {@code memcpy}, by one thread.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.driver;
