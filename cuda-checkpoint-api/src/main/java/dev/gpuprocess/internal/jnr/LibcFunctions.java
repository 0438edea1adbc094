package dev.gpuprocess.internal.jnr;

import jnr.ffi.annotations.In;
import jnr.ffi.annotations.Out;

/**
 * The functions of the C library for files, as {@code fcntl.h}, {@code unistd.h}, {@code
 * sys/mount.h}, {@code sys/statvfs.h} and {@code string.h} declare them, for JNR, which needs a
 * public interface. Names are bytes in the encoding of file names, ended by a zero. Use {@code
 * Libc}.
 */
public interface LibcFunctions {

  int open(@In byte[] path, int flags, int mode);

  int close(int descriptor);

  int fsync(int descriptor);

  int linkat(int from, @In byte[] file, int to, @In byte[] name, int flags);

  int mount(@In byte[] source, @In byte[] target, @In byte[] type, long flags, @In byte[] data);

  int sync_file_range(int descriptor, long offset, long bytes, int flags);

  /** With a {@code struct flock}. */
  int fcntl(int descriptor, int command, @In @Out byte[] lock);

  int fchmod(int descriptor, int mode);

  int ftruncate(int descriptor, long bytes);

  long pread(int descriptor, @Out byte[] bytes, long count, long offset);

  long pwrite(int descriptor, @In byte[] bytes, long count, long offset);

  int statvfs(@In byte[] path, @Out byte[] status);

  int statfs(@In byte[] path, @Out byte[] status);

  int getpagesize();

  String strerror(int error);
}
