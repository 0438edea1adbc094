/**
 * Extends the CUDA driver's lock to the calls that it does not keep out. For x86_64.
 *
 * <p>Driver 580 lets a locked process go on calling {@code cuStreamQuery}, {@code cuCtxSynchronize}
 * and a few others. They read memory that a checkpoint unmaps, and the process dies of SIGSEGV.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.gate;
