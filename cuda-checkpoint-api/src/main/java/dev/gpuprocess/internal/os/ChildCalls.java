package dev.gpuprocess.internal.os;

import dev.gpuprocess.internal.jnr.ChildFunctions;
import dev.gpuprocess.internal.time.Durations;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import jnr.ffi.Memory;
import jnr.ffi.Pointer;
import jnr.ffi.Runtime;

/** The functions behind {@link ChildStart}, {@link PidDescriptor} and {@link PacketSocketPair}. */
final class ChildCalls {

  static final ChildFunctions LIBRARY = NativeLibraries.load(ChildFunctions.class, "c");
  static final Runtime RUNTIME = Runtime.getRuntime(LIBRARY);

  private static final int F_DUPFD_CLOEXEC = 1030;
  private static final int POLL_BYTES = 8;
  private static final int REVENTS = 6;
  private static final short POLLIN = 1;

  private ChildCalls() {}

  /** Zeroed C memory, freed when the pointer is no longer reachable. */
  static Pointer allocate(int bytes) {
    return Memory.allocateDirect(RUNTIME, bytes, true);
  }

  /** A copy with a number that is at least this one. */
  static int copyAbove(int descriptor, int least) throws NativeCallException {
    return Libc.check(
        LIBRARY.fcntl(descriptor, F_DUPFD_CLOEXEC, least), "copy of descriptor " + descriptor);
  }

  /**
   * Waits until something is to be read, or the other end is closed, or the process of a pidfd has
   * ended.
   *
   * @return false when the time is up
   */
  static boolean await(int descriptor, Duration limit) throws NativeCallException {
    long end = Durations.end(limit);
    ByteBuffer polled = ByteBuffer.allocate(POLL_BYTES).order(ByteOrder.nativeOrder());
    polled.putInt(0, descriptor).putShort(4, POLLIN);
    while (true) {
      long left = Math.max(0, Durations.left(end));
      int millis = (int) Math.min(Integer.MAX_VALUE, (left + 999_999) / 1_000_000);
      int ready = LIBRARY.poll(polled.array(), 1, millis);
      if (ready > 0 && polled.getShort(REVENTS) != 0) {
        return true;
      }
      if (ready < 0 && Libc.errno() != Libc.EINTR) {
        throw Libc.failure("poll", Libc.errno());
      }
      if (left == 0) {
        return false;
      }
    }
  }
}
