package dev.gpuprocess.internal.jnr;

import jnr.ffi.annotations.In;

/**
 * The functions of the C library that hold a directory open and sync it, as {@code fcntl.h}, {@code
 * unistd.h} and {@code string.h} declare them.
 */
public interface DirectoryFunctions {

  int open(@In byte[] path, int flags);

  int fsync(int descriptor);

  int close(int descriptor);

  String strerror(int errno);
}
