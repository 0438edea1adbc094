package dev.gpuprocess.image.jnr;

/** The functions of the C library that hold a directory open, as {@code fcntl.h} declares them. */
public interface DirectoryFunctions {

  int open(String path, int flags);

  int close(int descriptor);
}
