package dev.gpuprocess.internal.linux;

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
   * Waits until something is to be read from one of the descriptors, its other end is closed, or
   * the process of a pidfd has ended.
   *
   * @return false when the time is up
   */
  static boolean await(Duration limit, int... descriptors) throws NativeCallException {
    long end = Durations.end(limit);
    ByteBuffer polled =
        ByteBuffer.allocate(POLL_BYTES * descriptors.length).order(ByteOrder.nativeOrder());
    for (int each = 0; each < descriptors.length; each++) {
      polled.putInt(POLL_BYTES * each, descriptors[each]).putShort(POLL_BYTES * each + 4, POLLIN);
    }
    while (true) {
      long left = Math.max(0, Durations.left(end));
      int millis = (int) Math.min(Integer.MAX_VALUE, (left + 999_999) / 1_000_000);
      int ready = LIBRARY.poll(polled.array(), descriptors.length, millis);
      if (ready > 0) {
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
