package dev.gpuprocess.internal.proc;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The sockets of the network namespace of a process, by inode, read from {@code /proc/PID/net}. */
public final class SocketTables {

  /** sl local_address rem_address st tx_queue:rx_queue tr:when retrnsmt uid timeout inode, ... */
  private static final int FIELDS = 10;

  /** Num RefCount Protocol Flags Type St Inode Path */
  private static final int UNIX_FIELDS = 8;

  private static final Pattern DESCRIPTOR = Pattern.compile("socket:\\[(\\d{1,18})]");

  private SocketTables() {}

  /**
   * Returns the inode of the socket behind a descriptor.
   *
   * @param target the target of the descriptor, such as {@code socket:[12]}
   * @return empty when it is not a socket
   */
  public static Optional<Long> inode(String target) {
    Matcher socket = DESCRIPTOR.matcher(target);
    return socket.matches() ? Optional.of(Long.valueOf(socket.group(1))) : Optional.empty();
  }

  /**
   * Reads the TCP sockets, of both versions of IP.
   *
   * @param pid a process in the namespace
   * @return by inode; empty when the process is gone
   */
  public static Map<Long, TcpSocket> tcp(long pid) {
    Map<Long, TcpSocket> sockets = new HashMap<>();
    for (String table : new String[] {"net/tcp", "net/tcp6"}) {
      ProcFields.lines(ProcFs.read(pid, table).orElse(""))
          .skip(1)
          .map(line -> line.strip().split(" +"))
          .filter(fields -> fields.length >= FIELDS)
          .map(SocketTables::tcpSocket)
          .forEach(socket -> sockets.put(socket.inode(), socket));
    }
    return sockets;
  }

  /**
   * Reads the names of the unix sockets that have one.
   *
   * @param pid a process in the namespace
   * @return by inode; the name of an abstract socket begins with {@code @}, which stands for each
   *     NUL in it; empty when the process is gone
   */
  public static Map<Long, String> unixNames(long pid) {
    Map<Long, String> names = new HashMap<>();
    ProcFields.lines(ProcFs.read(pid, "net/unix").orElse(""))
        .skip(1)
        .map(line -> line.strip().split(" +", UNIX_FIELDS))
        .filter(fields -> fields.length == UNIX_FIELDS)
        .forEach(fields -> names.put(Long.parseLong(fields[6]), fields[7]));
    return names;
  }

  private static TcpSocket tcpSocket(String[] fields) {
    String queues = fields[4];
    return new TcpSocket(
        Long.parseLong(fields[9]),
        Integer.parseInt(fields[3], 16),
        address(fields[1]),
        address(fields[2]),
        Long.parseLong(queues.substring(queues.indexOf(':') + 1), 16));
  }

  /** The kernel prints addresses as words of four bytes in the order of this machine. */
  private static String address(String text) {
    int colon = text.indexOf(':');
    ByteBuffer words = ByteBuffer.wrap(HexFormat.of().parseHex(text, 0, colon));
    ByteBuffer bytes = ByteBuffer.allocate(words.capacity()).order(ByteOrder.nativeOrder());
    while (words.hasRemaining()) {
      bytes.putInt(words.getInt());
    }
    return endpoint(bytes.array(), Integer.parseInt(text, colon + 1, text.length(), 16));
  }

  /**
   * Returns an address and a port as text, such as {@code 127.0.0.1:80} or {@code [::1]:80}.
   *
   * @param address 4 or 16 bytes
   */
  public static String endpoint(byte[] address, int port) {
    try {
      String host = InetAddress.getByAddress(address).getHostAddress();
      return (host.contains(":") ? "[" + host + "]" : host) + ":" + port;
    } catch (UnknownHostException e) {
      throw new IllegalArgumentException(address.length + " bytes are not an address", e);
    }
  }
}
