package dev.gpuprocess.criu.internal.os;

import static dev.gpuprocess.internal.linux.Libc.check;

import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.internal.linux.NativeCallException;
import jnr.ffi.Pointer;

/** Waits until a descriptor is readable. Not thread-safe. */
public final class Poll {

  // struct pollfd
  private static final int EVENTS = 4;
  private static final int RESULT = 6;
  private static final int BYTES = 8;
  private static final int POLLERR = 0x8;
  private static final int POLLHUP = 0x10;

  private final int count;
  private final Pointer polled;

  /**
   * Creates a poll.
   *
   * @param count how many descriptors there are
   */
  public Poll(int count) {
    this.count = count;
    this.polled = LinuxCalls.allocate(count * BYTES);
  }

  /**
   * Waits for one of them to be readable or at its end.
   *
   * @param millis the longest time to wait
   * @param descriptors as many as given to the constructor; negative ones are skipped
   * @return false if none is
   */
  public boolean await(int millis, int... descriptors) throws NativeCallException {
    for (int i = 0; i < count; i++) {
      polled.putInt((long) i * BYTES, descriptors[i]);
      polled.putShort((long) i * BYTES + EVENTS, LinuxCalls.POLLIN);
      polled.putShort((long) i * BYTES + RESULT, (short) 0);
    }
    int ready = LinuxCalls.functions().poll(polled, count, millis);
    if (ready < 0 && Libc.errno() != Libc.EINTR) {
      check(ready, "poll");
    }
    return ready > 0;
  }

  /** Whether nobody had the other end open in the last wait that returned true. */
  public boolean isHungUp(int index) {
    return (polled.getShort((long) index * BYTES + RESULT) & (POLLERR | POLLHUP)) != 0;
  }

  /** Whether this descriptor was readable or at its end in the last wait that returned true. */
  public boolean isReady(int index) {
    return polled.getShort((long) index * BYTES + RESULT) != 0;
  }
}
