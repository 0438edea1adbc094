package dev.gpuprocess.internal.attributes;

import dev.gpuprocess.internal.linux.TakenSocket;
import dev.gpuprocess.internal.proc.ProcFs;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The membership of a socket in a multicast group. {@code /proc/net} shows groups and not the
 * sockets in them, so each socket is asked for each group.
 *
 * @param device the name of the network device
 * @param filter a {@code struct group_filter}: the group, and the sources that are received
 */
@SuppressWarnings("ArrayRecordComponent") // never compared
record GroupMembership(String device, byte[] filter) {

  private static final int JOIN_GROUP = 42;
  private static final int FILTER = 48;

  /** In {@code struct group_filter}. */
  private static final int GROUP = 8;

  private static final int ADDRESS_BYTES = 128;
  private static final int MODE = GROUP + ADDRESS_BYTES;
  private static final int SOURCES = MODE + 4;
  private static final int HEAD = SOURCES + 4;
  private static final int MOST_SOURCES = 64;
  private static final int EXCLUDE = 0;

  private static final short INET = 2;
  private static final short INET6 = 10;
  private static final int ADDRESS_IN = 4;
  private static final int ADDRESS_IN6 = 8;

  private static final Pattern DEVICE = Pattern.compile("(\\d{1,9})\\s+(\\S+)\\s*:.*");
  private static final Pattern GROUP_LINE = Pattern.compile("\\s+([0-9A-F]{8})\\s.*");
  private static final Pattern GROUP6_LINE =
      Pattern.compile("(\\d{1,9})\\s+(\\S+)\\s+([0-9a-f]{32})\\s.*");
  private static final Pattern TEXT =
      Pattern.compile("([!-~]{1,15})/(([0-9a-f]{2}){" + HEAD + ",})");

  /** The groups of a network namespace, with the index of the device. */
  record Candidate(String device, int index, short family, byte[] address) {}

  /** Finds the groups of which sockets in the network namespace of a process are members. */
  static List<Candidate> candidates(int pid) {
    List<Candidate> found = new ArrayList<>();
    String device = "";
    int index = 0;
    for (String line : ProcFs.read(pid, "net/igmp").orElse("").split("\n", -1)) {
      Matcher head = DEVICE.matcher(line);
      Matcher group = GROUP_LINE.matcher(line);
      if (head.matches()) {
        index = Integer.parseInt(head.group(1));
        device = head.group(2);
      } else if (group.matches() && index > 0) {
        byte[] address =
            ByteBuffer.allocate(Integer.BYTES)
                .order(ByteOrder.nativeOrder())
                .putInt(Integer.parseUnsignedInt(group.group(1), 16))
                .array();
        found.add(new Candidate(device, index, INET, address));
      }
    }
    for (String line : ProcFs.read(pid, "net/igmp6").orElse("").split("\n", -1)) {
      Matcher group = GROUP6_LINE.matcher(line);
      if (group.matches()) {
        found.add(
            new Candidate(
                group.group(2),
                Integer.parseInt(group.group(1)),
                INET6,
                HexFormat.of().parseHex(group.group(3))));
      }
    }
    return found;
  }

  /** Returns the memberships of a socket. */
  static List<GroupMembership> of(TakenSocket socket, List<Candidate> candidates) {
    List<GroupMembership> found = new ArrayList<>();
    for (Candidate each : candidates) {
      byte[] filter = filter(each);
      int length = socket.read(level(each.family), FILTER, filter);
      if (length >= HEAD) {
        int sources = Math.min(MOST_SOURCES, buffer(filter).getInt(SOURCES));
        found.add(
            new GroupMembership(
                each.device, Arrays.copyOf(filter, HEAD + sources * ADDRESS_BYTES)));
      }
    }
    return found;
  }

  private static byte[] filter(Candidate group) {
    byte[] bytes = new byte[HEAD + MOST_SOURCES * ADDRESS_BYTES];
    ByteBuffer filter = buffer(bytes);
    filter.putInt(0, group.index).putShort(GROUP, group.family);
    int address = GROUP + (group.family == INET ? ADDRESS_IN : ADDRESS_IN6);
    for (int i = 0; i < group.address.length; i++) {
      filter.put(address + i, group.address[i]);
    }
    filter.putInt(SOURCES, MOST_SOURCES);
    return bytes;
  }

  private static ByteBuffer buffer(byte[] bytes) {
    return ByteBuffer.wrap(bytes).order(ByteOrder.nativeOrder());
  }

  private static int level(short family) {
    return family == INET ? SocketOptions.IP : SocketOptions.IPV6;
  }

  /**
   * Joins the group, unless the socket is a member.
   *
   * @param candidates the groups of the network namespace, for the indices of its devices
   * @return whether the socket is a member now
   */
  boolean joinedBy(TakenSocket socket, List<Candidate> candidates) {
    Map<String, Integer> indices = new HashMap<>();
    candidates.forEach(each -> indices.put(each.device, each.index));
    Integer index = indices.get(device);
    if (index == null) {
      return false;
    }
    byte[] here = filter.clone();
    buffer(here).putInt(0, index);
    int level = level(buffer(here).getShort(GROUP));
    byte[] now = here.clone();
    boolean isMember = socket.read(level, FILTER, now) >= HEAD;
    if (!isMember && !socket.set(level, JOIN_GROUP, Arrays.copyOf(here, MODE))) {
      return false;
    }
    boolean receivesAll = buffer(here).getInt(MODE) == EXCLUDE && buffer(here).getInt(SOURCES) == 0;
    return receivesAll || socket.set(level, FILTER, here);
  }

  /** Parses the text of {@link #toString}. */
  static Optional<GroupMembership> parse(String text) {
    Matcher fields = TEXT.matcher(text);
    return fields.matches()
        ? Optional.of(
            new GroupMembership(fields.group(1), HexFormat.of().parseHex(fields.group(2))))
        : Optional.empty();
  }

  /** Returns the device and the filter, such as {@code eth0/04000000...}. */
  @Override
  public String toString() {
    return device + "/" + HexFormat.of().formatHex(filter);
  }
}
