/** The identity of processes across reboots, pid namespaces and reused pids. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.process;
