package dev.gpuprocess.criu;

import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import jnr.ffi.LibraryLoader;
import jnr.ffi.annotations.Out;

/** A JVM that uses a GPU and counts in a file. */
public final class JvmTarget {

  private JvmTarget() {}

  /** The C names. */
  public interface Cuda {
    int cuInit(int flags);

    int cuDevicePrimaryCtxRetain(@Out long[] context, int device);
  }

  /** Counts. */
  public static void main(String[] args) throws Exception {
    Cuda cuda = LibraryLoader.create(Cuda.class).failImmediately().load(args[0]);
    if (cuda.cuInit(0) != 0 || cuda.cuDevicePrimaryCtxRetain(new long[1], 0) != 0) {
      throw new IllegalStateException("no GPU");
    }
    try (RandomAccessFile file = new RandomAccessFile(args[1], "rw")) {
      for (int i = 1; ; i++) {
        file.seek(0);
        file.write("%010d".formatted(i).getBytes(StandardCharsets.US_ASCII));
        Thread.sleep(5);
      }
    }
  }
}
