package dev.gpuprocess.internal.jnr;

import jnr.ffi.annotations.In;
import jnr.ffi.annotations.Out;

/**
 * The functions of the C library that lock a file and tell the room around it. Names are bytes in
 * the encoding of file names, ended by a zero.
 */
public interface LockFunctions {

  int open(@In byte[] path, int flags, int mode);

  int close(int descriptor);

  /** With a {@code struct flock}. */
  int fcntl(int descriptor, int command, @In @Out byte[] lock);

  int fchmod(int descriptor, int mode);

  long pread(int descriptor, @Out byte[] bytes, long count, long offset);

  long pwrite(int descriptor, @In byte[] bytes, long count, long offset);

  int statvfs(@In byte[] path, @Out byte[] status);

  String strerror(int error);
}
