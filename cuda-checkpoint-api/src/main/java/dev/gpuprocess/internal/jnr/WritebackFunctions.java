package dev.gpuprocess.internal.jnr;

/**
 * The functions of the C library that start to write a file to its disk, as {@code fcntl.h} says.
 */
public interface WritebackFunctions {

  int open(String path, int flags);

  int close(int descriptor);

  int sync_file_range(int descriptor, long offset, long bytes, int flags);
}
