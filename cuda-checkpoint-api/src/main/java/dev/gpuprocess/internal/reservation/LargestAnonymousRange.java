package dev.gpuprocess.internal.reservation;

import dev.gpuprocess.internal.proc.ProcFs;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.OptionalLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The size of the largest contiguous range of unnamed private writable memory of a process,
 * counting resident and swapped-out pages. Adjacent mappings count as one, because the kernel
 * merges and splits them at will.
 */
final class LargestAnonymousRange {

  /** The first line of a mapping: addresses, permissions, offset, device, inode, name. */
  private static final Pattern MAPPING =
      Pattern.compile("([0-9a-f]+)-([0-9a-f]+) (\\S{4}) [0-9a-f]+ \\S+ (\\d+)\\s*(.*)");

  private static final Pattern RESIDENT = Pattern.compile("(?:Rss|Swap): +(\\d+) kB");

  private long largest;
  private long stretch;
  private String end = "";
  private boolean counts;
  private boolean found;

  private LargestAnonymousRange() {}

  /**
   * Reads {@code /proc/PID/smaps}.
   *
   * @return bytes; empty if it cannot be read
   */
  static OptionalLong of(int pid) {
    LargestAnonymousRange counted = new LargestAnonymousRange();
    Path smaps = ProcFs.file(pid, "smaps");
    // File names may have any bytes, and the file may have hundreds of megabytes.
    try (BufferedReader lines = Files.newBufferedReader(smaps, StandardCharsets.ISO_8859_1)) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        counted.add(line);
      }
    } catch (IOException | NumberFormatException e) {
      // The process has ended or may not be read, which is not zero.
      return OptionalLong.empty();
    }
    return counted.found ? OptionalLong.of(counted.largest << 10) : OptionalLong.empty();
  }

  private void add(String line) {
    Matcher mapping = MAPPING.matcher(line);
    if (mapping.matches()) {
      begin(mapping);
      return;
    }
    Matcher resident = RESIDENT.matcher(line);
    if (counts && resident.matches()) {
      stretch += Long.parseLong(resident.group(1));
      largest = Math.max(largest, stretch);
    }
  }

  private void begin(Matcher mapping) {
    found = true;
    boolean adjoins = counts && mapping.group(1).equals(end);
    counts =
        mapping.group(3).matches("rw.p")
            && mapping.group(4).equals("0")
            && mapping.group(5).isEmpty();
    end = mapping.group(2);
    if (!adjoins) {
      stretch = 0;
    }
  }
}
