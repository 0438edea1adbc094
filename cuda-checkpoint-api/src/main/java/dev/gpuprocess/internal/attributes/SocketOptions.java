package dev.gpuprocess.internal.attributes;

import dev.gpuprocess.internal.linux.TakenSocket;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;

/**
 * The options of a socket, of which CRIU restores some. All that can be both read and set are kept,
 * except the ones that matter before {@code bind} only, and those that CRIU changes for a while.
 *
 * @param values by level and name, in the order in which they are set
 */
@SuppressWarnings("ArrayRecordComponent") // never compared
record SocketOptions(Map<Option, byte[]> values) {

  static final int IP = 0;
  static final int IPV6 = 41;
  private static final int SOCKET = 1;
  private static final int TCP = 6;
  private static final int UDP = 17;
  private static final int MULTIPATH_TCP = 262;

  private static final int TYPE = 3;
  private static final int PROTOCOL = 38;
  private static final int DOMAIN = 39;
  private static final int INET = 2;
  private static final int INET6 = 10;
  private static final int MOST = 128;

  /** By level. {@code IP_TOS} comes before {@code SO_PRIORITY}, which it changes. */
  private static final Map<Integer, List<Integer>> NAMES = new LinkedHashMap<>();

  static {
    NAMES.put(
        IP,
        List.of(
            1, 2, 6, 7, 8, 10, 11, 12, 13, 15, 18, 19, 20, 21, 22, 23, 24, 25, 26, 32, 33, 34, 49,
            50, 51));
    NAMES.put(
        IPV6,
        List.of(
            16, 17, 18, 19, 23, 25, 29, 33, 49, 51, 53, 56, 58, 60, 62, 66, 67, 70, 72, 73, 74, 75,
            76, 77, 78));
    NAMES.put(
        TCP, List.of(1, 3, 4, 5, 6, 7, 8, 9, 13, 16, 18, 23, 25, 27, 30, 34, 36, 37, 44, 45, 46));
    NAMES.put(UDP, List.of(1, 101, 102, 103, 104));
    NAMES.put(
        SOCKET,
        List.of(
            5, 6, 9, 10, 11, 12, 13, 18, 29, 35, 36, 37, 40, 44, 45, 46, 47, 60, 69, 70, 73, 74,
            75));
  }

  /** {@code TCP_MAXSEG} and {@code TCP_WINDOW_CLAMP}: the kernel changes them on a connection. */
  private static final List<Integer> NOT_OF_CONNECTIONS = List.of(2, 10);

  private static final int TCP_INFO = 11;
  private static final List<Byte> WITHOUT_CONNECTION = List.of((byte) 7, (byte) 10);

  record Option(int level, int name) {}

  /**
   * Reads the options of a socket.
   *
   * @return empty when it is not an IP socket
   */
  static Optional<SocketOptions> of(TakenSocket socket) {
    int domain = number(socket, DOMAIN);
    if (domain != INET && domain != INET6) {
      return Optional.empty();
    }
    Map<Option, byte[]> values = new LinkedHashMap<>();
    for (int level : levels(domain, number(socket, PROTOCOL))) {
      List<Integer> names = new ArrayList<>(NAMES.getOrDefault(level, List.of()));
      if (level == TCP && !isConnected(socket)) {
        names.addAll(NOT_OF_CONNECTIONS);
      }
      for (int name : names) {
        socket
            .get(level, name)
            .filter(value -> value.length > 0)
            .ifPresent(value -> values.put(new Option(level, name), value));
      }
    }
    return Optional.of(new SocketOptions(values));
  }

  private static boolean isConnected(TakenSocket socket) {
    return socket
        .get(TCP, TCP_INFO)
        .filter(info -> info.length > 0 && WITHOUT_CONNECTION.contains(info[0]))
        .isEmpty();
  }

  private static List<Integer> levels(int domain, int protocol) {
    List<Integer> levels = new ArrayList<>(List.of(IP));
    if (domain == INET6) {
      levels.add(IPV6);
    }
    levels.add(protocol == MULTIPATH_TCP ? TCP : protocol);
    levels.add(SOCKET);
    return levels;
  }

  /** Returns whether packets are sent to and received from groups by such sockets. */
  static boolean isForGroups(TakenSocket socket) {
    return number(socket, TYPE) != 1;
  }

  private static int number(TakenSocket socket, int name) {
    return socket
        .get(SOCKET, name)
        .filter(value -> value.length >= Integer.BYTES)
        .map(value -> ByteBuffer.wrap(value).order(ByteOrder.nativeOrder()).getInt())
        .orElse(-1);
  }

  /**
   * Sets the options that differ.
   *
   * @return the options that the kernel does not accept
   */
  List<String> setOn(TakenSocket socket) {
    List<String> refused = new ArrayList<>();
    values.forEach(
        (option, value) -> {
          boolean differs =
              socket
                  .get(option.level, option.name)
                  .filter(now -> !Arrays.equals(now, value))
                  .isPresent();
          if (differs && !socket.set(option.level, option.name, value)) {
            refused.add(option.level + "." + option.name);
          }
        });
    return refused;
  }

  /** Parses words of the text of {@link #toString}. */
  static Optional<SocketOptions> parse(List<String> words) {
    Map<Option, byte[]> values = new LinkedHashMap<>();
    for (String word : words) {
      if (!word.matches("\\d{1,3}\\.\\d{1,3}=([0-9a-f]{2}){1,64}") || values.size() == MOST) {
        return Optional.empty();
      }
      String[] parts = word.split("[.=]");
      values.put(
          new Option(Integer.parseInt(parts[0]), Integer.parseInt(parts[1])),
          HexFormat.of().parseHex(parts[2]));
    }
    return Optional.of(new SocketOptions(values));
  }

  /** Returns words such as {@code 6.18=e8030000}. */
  @Override
  public String toString() {
    return values.entrySet().stream()
        .map(
            each ->
                "%s.%s=%s"
                    .formatted(
                        Integer.toString(each.getKey().level),
                        Integer.toString(each.getKey().name),
                        HexFormat.of().formatHex(each.getValue())))
        .collect(Collectors.joining(" "));
  }
}
