package dev.gpuprocess.criu.internal.images;

import com.google.protobuf.ByteString;
import dev.gpuprocess.criu.proto.Images.file_entry;
import dev.gpuprocess.criu.proto.Images.inet_sk_entry;
import dev.gpuprocess.criu.proto.Images.unix_sk_entry;
import dev.gpuprocess.internal.proc.SocketTables;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;

/** Describes sockets. The constants are the kernel's. */
final class Sockets {

  private static final int AF_INET6 = 10;

  private static final int TCP = 6;
  private static final int UDP = 17;
  private static final int UDPLITE = 136;
  private static final int ICMP = 1;
  private static final int ICMPV6 = 58;

  private static final int LISTEN = 10;

  /** By number, from 1 on. */
  private static final List<String> TCP_STATES =
      List.of(
          "established",
          "syn sent",
          "syn received",
          "fin wait 1",
          "fin wait 2",
          "time wait",
          "closed",
          "close wait",
          "last ack",
          "listening",
          "closing");

  /** By number, from 1 on. */
  private static final List<String> TYPES = List.of("stream", "dgram", "raw", "rdm", "seqpacket");

  private Sockets() {}

  static String text(inet_sk_entry socket) {
    String protocol =
        switch (socket.getProto()) {
          case TCP -> "tcp";
          case UDP -> "udp";
          case UDPLITE -> "udplite";
          case ICMP, ICMPV6 -> "icmp";
          default -> "ip protocol " + socket.getProto();
        };
    StringBuilder text = new StringBuilder(protocol).append(' ');
    text.append(address(socket.getFamily(), socket.getSrcAddrList(), socket.getSrcPort()));
    if (socket.getDstPort() != 0) {
      text.append(" -> ")
          .append(address(socket.getFamily(), socket.getDstAddrList(), socket.getDstPort()));
    }
    if (socket.getProto() == TCP) {
      text.append(' ').append(name(TCP_STATES, socket.getState(), "state "));
    }
    return text.toString();
  }

  private static String name(List<String> names, int number, String otherwise) {
    return number > 0 && number <= names.size() ? names.get(number - 1) : otherwise + number;
  }

  private static String address(int family, List<Integer> words, int port) {
    int length = family == AF_INET6 ? 16 : 4;
    if (words.size() * Integer.BYTES < length) {
      return "?:" + port;
    }
    ByteBuffer bytes = ByteBuffer.allocate(length).order(ByteOrder.LITTLE_ENDIAN);
    words.subList(0, length / Integer.BYTES).forEach(bytes::putInt);
    return SocketTables.endpoint(bytes.array(), port);
  }

  static String text(unix_sk_entry socket) {
    StringBuilder text = new StringBuilder("unix ");
    text.append(name(TYPES, socket.getType(), "type "));
    if (!socket.getName().isEmpty()) {
      text.append(' ').append(name(socket.getName()));
    }
    if (socket.getState() == LISTEN) {
      text.append(" listening");
    }
    return text.append(" [")
        .append(Integer.toUnsignedString(socket.getIno()))
        .append(
            socket.getPeer() == 0 ? "]" : " -> " + Integer.toUnsignedString(socket.getPeer()) + "]")
        .toString();
  }

  /** An abstract name begins with a zero byte; a path ends with one. */
  private static String name(ByteString name) {
    String text = name.toString(StandardCharsets.UTF_8);
    String path = text.startsWith("\0") ? "@" + text.substring(1) : text;
    while (path.endsWith("\0")) {
      path = path.substring(0, path.length() - 1);
    }
    return path.replace('\0', '@');
  }

  /** Describes the kinds of sockets that are identified by their protocol alone. */
  static Optional<String> text(file_entry file) {
    if (file.hasNlsk()) {
      return Optional.of("netlink protocol " + file.getNlsk().getProtocol());
    }
    return file.hasPsk()
        ? Optional.of(
            "packet protocol 0x" + HexFormat.of().toHexDigits((short) file.getPsk().getProtocol()))
        : Optional.empty();
  }
}
