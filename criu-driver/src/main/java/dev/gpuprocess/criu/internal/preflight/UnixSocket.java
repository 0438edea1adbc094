package dev.gpuprocess.criu.internal.preflight;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * A UNIX socket as the kernel describes it ({@code linux/unix_diag.h}).
 *
 * @param inode as in {@code socket:[N]}
 * @param type 1 stream, 2 datagram, 5 sequenced packets
 * @param connected whether it is connected
 * @param peer the inode of the other end; 0 for none, or before the connection is accepted
 * @param name its path, or its abstract name with an {@code @} in front; may be empty
 * @param waiting for a listener, the inodes of the sockets that it has not accepted yet
 */
record UnixSocket(
    long inode, int type, boolean connected, long peer, String name, List<Long> waiting) {

  private static final int DATAGRAM = 2;
  private static final int ESTABLISHED = 1;

  // struct unix_diag_msg
  private static final int MESSAGE_BYTES = 16;

  // struct rtattr
  private static final int ATTRIBUTE_HEADER = 4;
  private static final int ALIGNMENT = 4;
  private static final int ATTRIBUTE_TYPE = 0x3fff;
  private static final int NAME = 0;
  private static final int PEER = 2;
  private static final int WAITING = 3;

  /** Returns whether it is a datagram socket. */
  boolean isDatagram() {
    return type == DATAGRAM;
  }

  /**
   * Reads one message.
   *
   * @param message without the netlink header, in native byte order
   * @throws IllegalArgumentException if it is too short
   */
  static UnixSocket parse(ByteBuffer message) {
    if (message.remaining() < MESSAGE_BYTES) {
      throw new IllegalArgumentException(
          message.remaining() + " bytes are too few for a UNIX socket");
    }
    int start = message.position();
    long peer = 0;
    String name = "";
    List<Long> waiting = new ArrayList<>();
    for (int at = start + MESSAGE_BYTES; message.limit() - at >= ATTRIBUTE_HEADER; ) {
      int length = Short.toUnsignedInt(message.getShort(at));
      int type = message.getShort(at + 2) & ATTRIBUTE_TYPE;
      if (length < ATTRIBUTE_HEADER || length > message.limit() - at) {
        break;
      }
      ByteBuffer value = message.slice(at + ATTRIBUTE_HEADER, length - ATTRIBUTE_HEADER);
      value.order(message.order());
      if (type == NAME) {
        name = text(value);
      } else if (type == PEER && value.remaining() >= Integer.BYTES) {
        peer = Integer.toUnsignedLong(value.getInt());
      } else if (type == WAITING) {
        while (value.remaining() >= Integer.BYTES) {
          waiting.add(Integer.toUnsignedLong(value.getInt()));
        }
      }
      at += (length + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    return new UnixSocket(
        Integer.toUnsignedLong(message.getInt(start + 4)),
        message.get(start + 1),
        message.get(start + 2) == ESTABLISHED,
        peer,
        name,
        List.copyOf(waiting));
  }

  /** An abstract name begins with a zero byte; a path may end with some. */
  private static String text(ByteBuffer name) {
    String text = StandardCharsets.UTF_8.decode(name).toString();
    return text.startsWith("\0") ? "@" + text.substring(1) : text.replaceAll("\0+$", "");
  }
}
