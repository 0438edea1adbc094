/**
 * The CUDA driver without any policy: {@link dev.gpuprocess.cuda.CudaDriver} has one method for
 * each checkpoint function and hands every answer back unchanged. This is the only package that
 * knows C structs.
 *
 * <p>Everything here may be used from any thread.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.cuda;
