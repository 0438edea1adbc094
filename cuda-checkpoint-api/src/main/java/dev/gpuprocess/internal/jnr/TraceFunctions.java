package dev.gpuprocess.internal.jnr;

import jnr.ffi.Pointer;
import jnr.ffi.annotations.In;
import jnr.ffi.annotations.Out;
import org.jspecify.annotations.Nullable;

/**
 * The functions of the C library that reach into another process, as {@code sys/ptrace.h}, {@code
 * sys/wait.h}, {@code sys/uio.h} and {@code sys/socket.h} declare them. What they point to is given
 * by address, as most of it holds addresses itself. Use {@code Ptrace}, {@code ProcessMemory} and
 * {@code ProcessDescriptor}.
 */
public interface TraceFunctions {

  long ptrace(long request, long task, long address, long data);

  int waitpid(int task, @Out int[] status, int options);

  long process_vm_readv(
      int process, @In long[] local, long locals, @In long[] remote, long remotes, long flags);

  long process_vm_writev(
      int process, @In long[] local, long locals, @In long[] remote, long remotes, long flags);

  long syscall(long number, long first, long second, long third);

  /** The last one is no number here: of six numbers jffi hands on the last one wrong. */
  long syscall(
      long number, long first, long second, long third, long fourth, @Nullable Pointer fifth);

  long sendmsg(int socket, long message, int flags);

  String strerror(int error);
}
