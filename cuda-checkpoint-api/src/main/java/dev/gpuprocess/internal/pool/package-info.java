/** Host memory, made beforehand, for the GPU memory of processes that will be suspended. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.pool;
