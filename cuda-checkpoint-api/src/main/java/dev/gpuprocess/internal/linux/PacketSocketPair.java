package dev.gpuprocess.internal.linux;

import java.time.Duration;
import java.util.Optional;

/**
 * A pair of connected UNIX sockets that preserve message boundaries: one end for this JVM, one for
 * a child. When the child or this JVM exits, the connection ends for the other. Not safe for use by
 * several threads.
 */
public final class PacketSocketPair implements AutoCloseable {

  private final PacketSocket ours;
  private int theirs;
  private boolean closed;

  private PacketSocketPair(PacketSocket ours, int theirs) {
    this.ours = ours;
    this.theirs = theirs;
  }

  /** Makes a pair; both ends are closed at exec. */
  public static PacketSocketPair make() throws NativeCallException {
    int[] pair = PacketSocket.pair();
    return new PacketSocketPair(new PacketSocket(pair[0]), pair[1]);
  }

  /** Returns the end for the child, valid until {@link #closeTheirs}. */
  public int theirs() {
    return theirs;
  }

  /** Closes the end for the child. To be called when the child has been started. */
  public void closeTheirs() {
    Libc.close(theirs);
    theirs = -1;
  }

  /**
   * Sends a message. Once this is closed, its descriptor may be another thread's.
   *
   * @return false when either end is closed
   */
  public boolean send(byte... message) throws NativeCallException {
    return !closed && ours.send(message);
  }

  /**
   * Waits for a message. A descriptor that comes with it is closed.
   *
   * @return an empty array when the other end is closed; empty at the end of the time
   */
  public Optional<byte[]> receive(Duration limit) throws NativeCallException {
    if (!Poll.await(limit, ours.descriptor())) {
      return Optional.empty();
    }
    Optional<Packet> packet = ours.receive();
    packet.ifPresent(message -> Libc.close(message.descriptor()));
    return Optional.of(packet.map(message -> message.bytes().array()).orElse(new byte[0]));
  }

  @Override
  public void close() {
    if (!closed) {
      closed = true;
      closeTheirs();
      ours.close();
    }
  }
}
