package dev.gpuprocess.internal.jnr;

import jnr.ffi.Pointer;
import jnr.ffi.annotations.In;
import jnr.ffi.annotations.Out;
import org.jspecify.annotations.Nullable;

/**
 * The functions of the C library that write files from given addresses ({@code unistd.h}, {@code
 * fcntl.h}, {@code sys/mman.h}, {@code sys/vfs.h}). Use {@code BlockFile}.
 */
public interface BlockFunctions {

  long pwrite(int descriptor, long address, long count, long offset);

  long pread(int descriptor, long address, long count, long offset);

  /** With {@code struct iovec}s as pairs of numbers. */
  long preadv2(int descriptor, @In long[] vectors, int count, long offset, int flags);

  int fallocate(int descriptor, int mode, long offset, long bytes);

  int fdatasync(int descriptor);

  int fcntl(int descriptor, int command, int flags);

  int ftruncate(int descriptor, long bytes);

  int fstatfs(int descriptor, @Out byte[] status);

  /** The address is no number here: of six numbers jffi hands on the last one wrong. */
  long mmap(
      @Nullable Pointer address,
      long bytes,
      int protection,
      int flags,
      int descriptor,
      long offset);

  int munmap(long address, long bytes);

  int madvise(long address, long bytes, int advice);
}
