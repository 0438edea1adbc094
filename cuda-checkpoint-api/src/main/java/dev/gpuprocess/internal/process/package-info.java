/** Processes told apart over boots, pid namespaces and reused pids. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.process;
