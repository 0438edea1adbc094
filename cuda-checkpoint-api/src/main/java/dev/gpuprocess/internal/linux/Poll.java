package dev.gpuprocess.internal.linux;

import dev.gpuprocess.internal.time.Deadline;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;

/** Waits until a descriptor is readable ({@code poll}). Not safe for use by several threads. */
public final class Poll {

  // struct pollfd
  private static final int EVENTS = 4;
  private static final int RESULT = 6;
  private static final int BYTES = 8;

  private static final short POLLIN = 1;
  private static final int POLLERR = 0x8;
  private static final int POLLHUP = 0x10;

  private final int count;
  private final ByteBuffer polled;

  /**
   * Creates a poll.
   *
   * @param count how many descriptors there are
   */
  public Poll(int count) {
    this.count = count;
    this.polled = ByteBuffer.allocate(count * BYTES).order(ByteOrder.nativeOrder());
  }

  /**
   * Waits until something can be read from one of the descriptors, its other end is closed, or the
   * process of a pidfd has exited.
   *
   * @param limit how long to wait
   * @return false at the end of that time
   */
  static boolean await(Duration limit, int... descriptors) throws NativeCallException {
    Poll poll = new Poll(descriptors.length);
    Deadline deadline = Deadline.after(limit);
    while (true) {
      int millis = deadline.millis(Integer.MAX_VALUE);
      if (poll.await(millis, descriptors)) {
        return true;
      }
      if (millis == 0) {
        return false;
      }
    }
  }

  /**
   * Waits for one of the descriptors to be readable or at its end, or for a signal.
   *
   * @param millis the longest time to wait
   * @param descriptors as many as given to the constructor; negative ones are skipped
   * @return false if none is
   */
  public boolean await(int millis, int... descriptors) throws NativeCallException {
    for (int i = 0; i < count; i++) {
      polled.putInt(i * BYTES, descriptors[i]);
      polled.putShort(i * BYTES + EVENTS, POLLIN);
      polled.putShort(i * BYTES + RESULT, (short) 0);
    }
    int ready = Libc.LIBRARY.poll(polled.array(), count, millis);
    if (ready < 0 && Libc.errno() != Libc.EINTR) {
      throw Libc.failure("poll", Libc.errno());
    }
    return ready > 0;
  }

  /** Returns whether the other end was closed in the last wait that returned true. */
  public boolean isHungUp(int index) {
    return (result(index) & (POLLERR | POLLHUP)) != 0;
  }

  /**
   * Returns whether a descriptor was readable or at its end in the last wait that returned true.
   */
  public boolean isReady(int index) {
    return result(index) != 0;
  }

  private short result(int index) {
    return polled.getShort(index * BYTES + RESULT);
  }
}
