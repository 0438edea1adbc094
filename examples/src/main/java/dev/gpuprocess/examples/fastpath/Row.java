package dev.gpuprocess.examples.fastpath;

import java.util.Locale;

/**
 * A row of the table: both ways, in the same run.
 *
 * @param size of the GPU memory
 * @param place {@code tmpfs} or {@code disk}
 * @param raw the driver's calls and CRIU's command
 * @param here this library
 */
record Row(Size size, String place, Trip raw, Trip here) {

  static final String HEAD =
      String.format(
              "%-9s%-7s%24s%24s%24s%n", "seconds", "", "suspend", "dump", "restore and resume")
          + String.format(
              "%-9s%-7s%8s%8s%8s%8s%8s%8s%8s%8s%8s",
              "GPU", "image", "raw", "here", "times", "raw", "here", "times", "raw", "here",
              "times");

  @Override
  public String toString() {
    return String.format(
        Locale.ROOT,
        "%-9s%-7s%8.2f%8.2f%8.1f%8.2f%8.2f%8.1f%8.2f%8.2f%8.1f",
        size,
        place,
        raw.suspend(),
        here.suspend(),
        raw.suspend() / here.suspend(),
        raw.dump(),
        here.dump(),
        raw.dump() / here.dump(),
        raw.restore(),
        here.restore(),
        raw.restore() / here.restore());
  }
}
