package dev.gpuprocess.internal.proc;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A mapping of a process ({@code /proc/PID/maps}).
 *
 * @param start its first address
 * @param end the address after its last
 * @param permissions such as {@code rw-p}: read, write, execute; private or shared
 * @param offset the offset in the mapped file
 * @param device the file system of the mapped file, such as {@code fe:00}
 * @param inode the inode of the mapped file; 0 for memory without a file
 * @param name the mapped file, or the kernel's name such as {@code [heap]}; empty for unnamed
 *     memory
 */
public record Mapping(
    long start, long end, String permissions, long offset, String device, long inode, String name) {

  /** The name may contain anything but a newline, which the kernel writes as {@code \012}. */
  private static final Pattern LINE =
      Pattern.compile(
          "([0-9a-f]{1,16})-([0-9a-f]{1,16}) (\\S{4}) ([0-9a-f]{1,16}) (\\S+) (\\d{1,18})(?: +(.*))?",
          Pattern.DOTALL);

  /**
   * Reads the mappings of a process, which may be a million, and keeps those that are wanted.
   *
   * @param wanted called with each mapping; its exception ends the reading
   * @return ordered by address
   * @throws ProcessUnreadableException when the process may not be read
   */
  public static List<Mapping> of(int pid, Predicate<Mapping> wanted) {
    List<Mapping> found = new ArrayList<>();
    ProcFs.memory(
        pid,
        mapping -> {
          if (wanted.test(mapping)) {
            found.add(mapping);
          }
        });
    return found;
  }

  /**
   * Parses one line.
   *
   * @return empty when it does not describe a mapping
   */
  static Optional<Mapping> parse(String line) {
    Matcher fields = LINE.matcher(line);
    if (!fields.matches()) {
      return Optional.empty();
    }
    String name = fields.group(7);
    return Optional.of(
        new Mapping(
            Long.parseUnsignedLong(fields.group(1), 16),
            Long.parseUnsignedLong(fields.group(2), 16),
            fields.group(3),
            Long.parseUnsignedLong(fields.group(4), 16),
            fields.group(5),
            Long.parseLong(fields.group(6)),
            name == null ? "" : name));
  }

  /** Returns the addresses. */
  public AddressRange addresses() {
    return new AddressRange(start, end);
  }

  /** Returns the mapped file. */
  public FileId file() {
    return new FileId(device, inode);
  }

  /** Returns whether an address is in it. */
  public boolean contains(long address) {
    return start <= address && address < end;
  }

  /** Returns whether it is memory without file and name, as {@code malloc} and drivers use. */
  public boolean isUnnamedMemory() {
    return inode == 0 && name.isEmpty();
  }

  /**
   * Returns the address range as in the names of {@code /proc/PID/map_files}, such as {@code
   * 7f00-7f80}.
   */
  public String range() {
    return Long.toHexString(start) + "-" + Long.toHexString(end);
  }
}
