package dev.gpuprocess.proc;

/**
 * A mapping of a process ({@code /proc/PID/maps}).
 *
 * @param start its first address
 * @param end the address after its last
 * @param device the file system of the file behind it, such as {@code fe:00}
 * @param inode of the file behind it, 0 when there is none
 * @param name the file behind it, or what the kernel calls it, such as {@code [heap]}; empty when
 *     it has no name
 */
public record Mapping(long start, long end, String device, long inode, String name) {

  private static final int FIELDS_BEFORE_NAME = 5;

  /** Reads one line. */
  static Mapping parse(String line) {
    String[] fields = line.split(" +", FIELDS_BEFORE_NAME + 1);
    int dash = fields[0].indexOf('-');
    return new Mapping(
        Long.parseUnsignedLong(fields[0], 0, dash, 16),
        Long.parseUnsignedLong(fields[0], dash + 1, fields[0].length(), 16),
        fields[3],
        Long.parseLong(fields[4]),
        fields.length > FIELDS_BEFORE_NAME ? fields[FIELDS_BEFORE_NAME] : "");
  }

  /**
   * The addresses as {@code /proc/PID/map_files} names them.
   *
   * @return such as {@code 7f00-7f80}
   */
  public String range() {
    return Long.toHexString(start) + "-" + Long.toHexString(end);
  }
}
