package dev.gpuprocess.examples.fastpath;

/**
 * How much memory.
 *
 * @param mebibytes at least 1
 */
record Size(int mebibytes) {

  /**
   * Reads one.
   *
   * @param text such as {@code 512m} or {@code 16g}
   */
  static Size of(String text) {
    int number = Integer.parseInt(text.substring(0, text.length() - 1));
    return new Size(text.endsWith("g") ? Math.multiplyExact(number, 1024) : number);
  }

  @Override
  public String toString() {
    return mebibytes % 1024 == 0 ? mebibytes / 1024 + " GiB" : mebibytes + " MiB";
  }
}
