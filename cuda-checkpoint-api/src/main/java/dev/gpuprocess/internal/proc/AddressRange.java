package dev.gpuprocess.internal.proc;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;

/**
 * A part of an address space. Immutable.
 *
 * @param start its first address
 * @param end the address after its last
 */
public record AddressRange(long start, long end) {

  /**
   * Checks that it is not empty. User space ends far below 2^63 on every machine.
   *
   * @throws IllegalArgumentException when it is empty or negative
   */
  public AddressRange {
    if (start < 0 || end <= start) {
      throw new IllegalArgumentException(
          Long.toHexString(start) + "-" + Long.toHexString(end) + " is not a range of addresses");
    }
  }

  /** Returns the size in bytes. */
  public long bytes() {
    return end - start;
  }

  /** Returns the intersection of both ranges. */
  public Optional<AddressRange> and(AddressRange other) {
    long from = Math.max(start, other.start);
    long to = Math.min(end, other.end);
    return from < to ? Optional.of(new AddressRange(from, to)) : Optional.empty();
  }

  /** Formats ranges for {@link #parse}. */
  public static String text(List<AddressRange> ranges) {
    return ranges.stream().map(AddressRange::toString).collect(Collectors.joining(","));
  }

  /**
   * Parses the result of {@link #text}.
   *
   * @throws IllegalArgumentException when the text has another form
   */
  public static List<AddressRange> parse(String text) {
    List<AddressRange> ranges = new ArrayList<>();
    for (String each : text.isEmpty() ? new String[0] : text.split(",", -1)) {
      int dash = each.indexOf('-');
      if (dash < 0) {
        throw new IllegalArgumentException("'" + each + "' is not a range of addresses");
      }
      ranges.add(
          new AddressRange(
              Long.parseLong(each.substring(0, dash), 16),
              Long.parseLong(each.substring(dash + 1), 16)));
    }
    return ranges;
  }

  /** Returns the form of names in {@code /proc/PID/map_files}, such as {@code 7f00-7f80}. */
  @Override
  public String toString() {
    return Long.toHexString(start) + "-" + Long.toHexString(end);
  }
}
