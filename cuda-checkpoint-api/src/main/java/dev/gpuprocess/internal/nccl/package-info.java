/** NCCL between processes, and the settings with which it can be dumped. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.nccl;
