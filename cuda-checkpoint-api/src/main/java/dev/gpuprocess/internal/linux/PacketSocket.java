package dev.gpuprocess.internal.linux;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.LongSupplier;

/**
 * One end of a connection of UNIX sockets that preserve message boundaries: one message is one
 * packet, and a descriptor may come with it. Not safe for use by several threads.
 */
public final class PacketSocket {

  /** The rest of a longer message is not read. */
  private static final int MESSAGE_LIMIT = 1 << 20;

  private static final int SOL_SOCKET = 1;
  private static final int SO_PASSCRED = 16;
  private static final int SCM_RIGHTS = 1;
  private static final int SCM_CREDENTIALS = 2;
  private static final int SHUT_RDWR = 2;

  // struct msghdr and struct cmsghdr of 64-bit Linux
  private static final int MSG_IOV = 16;
  private static final int MSG_IOVLEN = 24;
  private static final int MSG_CONTROL = 32;
  private static final int MSG_CONTROLLEN = 40;
  private static final int MSGHDR_BYTES = 56;
  private static final int IOVEC_BYTES = 16;
  private static final int CMSG_LEVEL = 8;
  private static final int CMSG_TYPE = 12;
  private static final int CMSG_DATA = 16;
  private static final int CMSG_ALIGNMENT = 8;
  private static final int CMSG_BYTES = 24 + 32; // for one descriptor, and for credentials

  // Both structs and the control message are in one piece of memory.
  private static final int VECTOR = MSGHDR_BYTES;
  private static final int CONTROL = VECTOR + IOVEC_BYTES;
  private static final int HEADER_BYTES = CONTROL + CMSG_BYTES;

  private final int socket;
  private final byte[] peeked = new byte[1];

  /** Uses a descriptor, which {@link #close} closes. */
  public PacketSocket(int socket) {
    this.socket = socket;
  }

  /**
   * Makes a pair of connected sockets, which are closed at exec. After a failed call JNR copies
   * back values that are not descriptors; they are not returned.
   */
  public static int[] pair() throws NativeCallException {
    int[] pair = new int[2];
    Libc.check(
        Libc.LIBRARY.socketpair(Libc.AF_UNIX, Libc.SOCK_SEQPACKET | Libc.O_CLOEXEC, 0, pair),
        "socketpair");
    return pair;
  }

  /** Has the kernel attach the sender's pid to every message. */
  public void askForSenders() throws NativeCallException {
    int[] on = {1};
    Libc.check(
        Libc.LIBRARY.setsockopt(socket, SOL_SOCKET, SO_PASSCRED, on, Integer.BYTES),
        "setsockopt SO_PASSCRED");
  }

  public int descriptor() {
    return socket;
  }

  /**
   * Sends one message.
   *
   * @return false if the other end is closed
   */
  public boolean send(byte[] message) throws NativeCallException {
    while (true) {
      long sent = Libc.LIBRARY.send(socket, message, message.length, Libc.MSG_NOSIGNAL);
      if (sent >= 0) {
        return true;
      }
      int errno = Libc.errno();
      if (errno == Libc.EPIPE || errno == Libc.ECONNRESET) {
        return false;
      }
      if (errno != Libc.EINTR) {
        throw Libc.failure("send of " + message.length + " bytes", errno);
      }
    }
  }

  /**
   * Receives one message. Of several descriptors that come with it, all but the first are closed.
   *
   * @return empty when the other end is closed
   */
  public Optional<Packet> receive() throws NativeCallException {
    long size =
        untilDone(
            () -> Libc.LIBRARY.recv(socket, peeked, 1, Libc.MSG_PEEK | Libc.MSG_TRUNC), "recv");
    if (size <= 0) {
      return Optional.empty();
    }
    int length = (int) Math.min(size, MESSAGE_LIMIT);
    NativeMemory data = NativeMemory.of(length);
    NativeMemory header = NativeMemory.of(HEADER_BYTES);
    header.putLong(VECTOR, data.address());
    header.putLong(VECTOR + 8, length);
    header.putLong(MSG_IOV, header.address() + VECTOR);
    header.putLong(MSG_IOVLEN, 1);
    header.putLong(MSG_CONTROL, header.address() + CONTROL);
    header.putLong(MSG_CONTROLLEN, CMSG_BYTES);
    long received =
        untilDone(
            () ->
                header.with(
                    message -> Libc.LIBRARY.recvmsg(socket, message, Libc.MSG_CMSG_CLOEXEC)),
            "recvmsg");
    byte[] bytes = data.read(0, (int) Math.max(0, received));
    List<Integer> descriptors = numbers(header, SCM_RIGHTS);
    descriptors.stream().skip(1).forEach(Libc::close);
    return Optional.of(
        new Packet(
            ByteBuffer.wrap(bytes),
            descriptors.stream().findFirst().orElse(-1),
            numbers(header, SCM_CREDENTIALS).stream().findFirst().orElse(0)));
  }

  /** Returns the numbers in the control messages of a type: descriptors, or first the pid. */
  private static List<Integer> numbers(NativeMemory header, int type) {
    List<Integer> found = new ArrayList<>();
    long length = header.getLong(MSG_CONTROLLEN);
    long at = 0;
    while (at + CMSG_DATA <= length) {
      int message = CONTROL + (int) at;
      long size = header.getLong(message);
      if (size < CMSG_DATA) {
        break;
      }
      if (header.getInt(message + CMSG_LEVEL) == SOL_SOCKET
          && header.getInt(message + CMSG_TYPE) == type) {
        for (int data = CMSG_DATA; data + Integer.BYTES <= size; data += Integer.BYTES) {
          found.add(header.getInt(message + data));
        }
      }
      at += (size + CMSG_ALIGNMENT - 1) / CMSG_ALIGNMENT * CMSG_ALIGNMENT;
    }
    return found;
  }

  private static long untilDone(LongSupplier call, String name) throws NativeCallException {
    while (true) {
      long size = call.getAsLong();
      if (size >= 0) {
        return size;
      }
      int errno = Libc.errno();
      if (errno == Libc.ECONNRESET) {
        return 0;
      }
      if (errno != Libc.EINTR) {
        throw Libc.failure(name, errno);
      }
    }
  }

  /**
   * Shuts the connection down in both directions.
   *
   * @return false if the other end did that before
   */
  public boolean hangUp() {
    return Libc.LIBRARY.shutdown(socket, SHUT_RDWR) == 0;
  }

  public void close() {
    Libc.close(socket);
  }
}
