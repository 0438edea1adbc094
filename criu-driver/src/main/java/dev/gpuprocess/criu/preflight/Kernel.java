package dev.gpuprocess.criu.preflight;

import dev.gpuprocess.criu.preflight.jnr.KernelFunctions;
import java.io.IOException;
import jnr.ffi.LibraryLoader;
import jnr.ffi.Runtime;

/** What the C library says, with its errors as exceptions. Loaded when first needed. */
final class Kernel {

  static final int CLOEXEC = 0x80000;

  static final KernelFunctions C =
      LibraryLoader.create(KernelFunctions.class).failImmediately().load("c");
  static final Runtime RUNTIME = Runtime.getRuntime(C);

  private Kernel() {}

  static int check(long result, String call) throws IOException {
    if (result < 0) {
      throw new IOException(call + ": " + C.strerror(RUNTIME.getLastError()));
    }
    return Math.toIntExact(result);
  }

  static void close(int descriptor) throws IOException {
    check(C.close(descriptor), "close");
  }
}
