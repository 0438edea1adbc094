package dev.gpuprocess.internal.jnr;

/**
 * The functions of the C library that write files from given addresses ({@code unistd.h}, {@code
 * fcntl.h}). Use {@code BlockFile}.
 */
public interface BlockFunctions {

  long pwrite(int descriptor, long address, long count, long offset);

  long pread(int descriptor, long address, long count, long offset);

  int fallocate(int descriptor, int mode, long offset, long bytes);

  int fdatasync(int descriptor);

  int fcntl(int descriptor, int command, int flags);
}
