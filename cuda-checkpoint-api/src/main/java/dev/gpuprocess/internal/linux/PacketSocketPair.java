package dev.gpuprocess.internal.linux;

import java.time.Duration;
import java.util.Arrays;
import java.util.Optional;

/**
 * A pair of connected UNIX sockets that preserve message boundaries: one end for this JVM, one for
 * a child. A child that ends is seen as the end of the connection, and so is this JVM by the child.
 * Not for use by several threads.
 */
public final class PacketSocketPair implements AutoCloseable {

  private static final int AF_UNIX = 1;
  private static final int SOCK_SEQPACKET = 5;
  private static final int CLOEXEC = 0x80000;
  private static final int MSG_NOSIGNAL = 0x4000;
  private static final int EPIPE = 32;
  private static final int ECONNRESET = 104;
  private static final int MOST_BYTES = 64;

  private final int ours;
  private int theirs;
  private boolean closed;

  private PacketSocketPair(int ours, int theirs) {
    this.ours = ours;
    this.theirs = theirs;
  }

  /** Makes a pair; both ends are closed at exec. */
  public static PacketSocketPair make() throws NativeCallException {
    int[] pair = new int[2];
    Libc.check(
        ChildCalls.LIBRARY.socketpair(AF_UNIX, SOCK_SEQPACKET | CLOEXEC, 0, pair), "socketpair");
    return new PacketSocketPair(pair[0], pair[1]);
  }

  /** The end for the child, until {@link #closeTheirs}. */
  public int theirs() {
    return theirs;
  }

  /** To be called when the child has been started. */
  public void closeTheirs() {
    Libc.close(theirs);
    theirs = -1;
  }

  /**
   * Sends a message.
   *
   * @return false when the other end is closed
   */
  public boolean send(byte... message) throws NativeCallException {
    if (ChildCalls.LIBRARY.send(ours, message, message.length, MSG_NOSIGNAL) == message.length) {
      return true;
    }
    if (Libc.errno() == EPIPE || Libc.errno() == ECONNRESET) {
      return false;
    }
    throw Libc.failure("send", Libc.errno());
  }

  /**
   * Waits for a message of at most 64 bytes.
   *
   * @return empty array when the other end is closed; empty when the time is up
   */
  public Optional<byte[]> receive(Duration limit) throws NativeCallException {
    byte[] message = new byte[MOST_BYTES];
    while (ChildCalls.await(limit, ours)) {
      long length = ChildCalls.LIBRARY.recv(ours, message, message.length, 0);
      if (length >= 0) {
        return Optional.of(Arrays.copyOf(message, (int) length));
      }
      if (Libc.errno() == ECONNRESET) {
        return Optional.of(new byte[0]);
      }
      if (Libc.errno() != Libc.EINTR) {
        throw Libc.failure("recv", Libc.errno());
      }
    }
    return Optional.empty();
  }

  @Override
  public void close() {
    if (!closed) {
      closed = true;
      closeTheirs();
      Libc.close(ours);
    }
  }
}
