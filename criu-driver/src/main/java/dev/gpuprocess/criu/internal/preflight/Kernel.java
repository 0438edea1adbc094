package dev.gpuprocess.criu.internal.preflight;

import dev.gpuprocess.criu.internal.preflight.jnr.KernelFunctions;
import dev.gpuprocess.internal.os.NativeLibraries;
import java.io.IOException;
import java.nio.file.Path;
import jnr.ffi.Memory;
import jnr.ffi.Pointer;
import jnr.ffi.Runtime;

/** Calls of the C library, with errors as exceptions. Loaded when first needed. */
final class Kernel {

  static final int CLOEXEC = 0x80000;

  // struct statfs begins with the type.
  private static final int STATFS_BYTES = 256;
  private static final long MQUEUE_MAGIC = 0x19800202;

  static final KernelFunctions C = NativeLibraries.load(KernelFunctions.class, "c");
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

  /** Whether a file is a POSIX message queue. */
  static boolean isQueue(Path file) {
    Pointer answer = Memory.allocateDirect(RUNTIME, STATFS_BYTES, true);
    return C.statfs(file.toString(), answer) == 0 && answer.getLong(0) == MQUEUE_MAGIC;
  }
}
