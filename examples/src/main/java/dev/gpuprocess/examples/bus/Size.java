package dev.gpuprocess.examples.bus;

/**
 * An amount of memory.
 *
 * @param mebibytes at least 1
 */
public record Size(int mebibytes) {

  /**
   * Parses a size.
   *
   * @param text such as {@code 512m} or {@code 16g}; without a letter in GiB
   */
  public static Size of(String text) {
    int number = Integer.parseInt(text.replaceFirst("[gm]$", ""));
    return new Size(text.endsWith("m") ? number : Math.multiplyExact(number, 1024));
  }

  /** Returns the size in bytes. */
  long bytes() {
    return (long) mebibytes << 20;
  }

  @Override
  public String toString() {
    return mebibytes % 1024 == 0 ? mebibytes / 1024 + " GiB" : mebibytes + " MiB";
  }
}
