package dev.gpuprocess.internal.jnr;

import jnr.ffi.annotations.In;

/** The functions of the C library that create a file in a directory that others can change. */
public interface FileFunctions {

  int open(@In byte[] path, int flags);

  int openat(int directory, @In byte[] name, int flags, int mode);

  int unlinkat(int directory, @In byte[] name, int flags);

  int mkdir(@In byte[] path, int mode);

  int fchown(int descriptor, int user, int group);

  int fchmod(int descriptor, int mode);

  long write(int descriptor, @In byte[] bytes, long length);

  int close(int descriptor);

  String strerror(int errno);
}
