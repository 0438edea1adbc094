package dev.gpuprocess.internal.machine;

import java.util.Arrays;
import java.util.OptionalInt;
import java.util.regex.Pattern;

/** The order of versions of the NVIDIA driver, such as {@code 580.159.04}. */
final class DriverVersions {

  private static final Pattern VERSION = Pattern.compile("\\d{1,9}(\\.\\d{1,9}){0,9}");

  private DriverVersions() {}

  /** Compares two; empty when one is no version. */
  static OptionalInt compare(String one, String other) {
    return VERSION.matcher(one).matches() && VERSION.matcher(other).matches()
        ? OptionalInt.of(Arrays.compare(parts(one), parts(other)))
        : OptionalInt.empty();
  }

  private static int[] parts(String version) {
    return Arrays.stream(version.split("\\.")).mapToInt(Integer::parseInt).toArray();
  }
}
