package dev.gpuprocess.criu;

import dev.gpuprocess.internal.remote.PassedDescriptor;
import dev.gpuprocess.internal.remote.RemoteCalls;
import dev.gpuprocess.internal.remote.SystemCall;
import dev.gpuprocess.internal.remote.UntraceableException;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.time.Duration;

/**
 * Lets a process map files that this JVM has open, as a program with inherited descriptors does.
 */
final class RemoteMappings {

  static final int SHARED = 1;
  static final int PRIVATE = 2;

  private static final int READ_WRITE = 3;
  private static final Duration PATIENCE = Duration.ofSeconds(30);

  private RemoteMappings() {}

  /**
   * Maps the beginning of a file. The process keeps the mapping, and no descriptor.
   *
   * @param flags {@link #SHARED} or {@link #PRIVATE}
   * @return the address
   */
  static long map(long pid, int descriptor, long bytes, int flags)
      throws IOException, UntraceableException {
    return mapAt(0, pid, descriptor, bytes, flags);
  }

  /**
   * Does the same at an address where the process maps nothing.
   *
   * @param address 0 for any
   */
  static long mapAt(long address, long pid, int descriptor, long bytes, int flags)
      throws IOException, UntraceableException {
    ProcessIdentity process = ProcessIdentity.of(pid).orElseThrow();
    return RemoteCalls.borrow(
        process,
        PATIENCE,
        thread -> {
          try (PassedDescriptor passed = PassedDescriptor.pass(thread, descriptor)) {
            return thread.call(
                SystemCall.MMAP, address, bytes, READ_WRITE, flags, passed.number(), 0);
          }
        });
  }
}
