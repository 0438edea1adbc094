package dev.gpuprocess.internal.jnr;

import jnr.ffi.annotations.In;

/**
 * The functions of the C library that set the CPU affinity and I/O priority of a task of another
 * process.
 */
public interface TaskFunctions {

  int sched_setaffinity(int task, long bytes, @In byte[] mask);

  long syscall(long number, long first, long second, long third);

  String strerror(int errno);
}
