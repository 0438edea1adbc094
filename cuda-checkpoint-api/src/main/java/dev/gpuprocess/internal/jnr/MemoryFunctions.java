package dev.gpuprocess.internal.jnr;

import jnr.ffi.annotations.In;

/**
 * The functions of the C library that move memory of other processes ({@code sys/uio.h}) and write
 * files from given addresses ({@code unistd.h}, {@code fcntl.h}). Use {@code MemoryTransfer} and
 * {@code BlockFile}.
 */
public interface MemoryFunctions {

  /** With one {@code struct iovec} on each side. */
  long process_vm_readv(
      int pid, @In byte[] local, long locals, @In byte[] remote, long remotes, long flags);

  long process_vm_writev(
      int pid, @In byte[] local, long locals, @In byte[] remote, long remotes, long flags);

  long pread(int descriptor, long address, long count, long offset);

  long pwrite(int descriptor, long address, long count, long offset);

  int fallocate(int descriptor, int mode, long offset, long bytes);

  int fdatasync(int descriptor);

  int fcntl(int descriptor, int command, int flags);
}
