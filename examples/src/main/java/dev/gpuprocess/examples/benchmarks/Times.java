package dev.gpuprocess.examples.benchmarks;

import java.util.List;
import java.util.Locale;

/** Several measurements of one thing, in seconds. */
final class Times {

  private Times() {}

  static double median(List<Double> seconds) {
    List<Double> sorted = seconds.stream().sorted().toList();
    int half = sorted.size() / 2;
    return sorted.size() % 2 == 1
        ? sorted.get(half)
        : (sorted.get(half - 1) + sorted.get(half)) / 2;
  }

  /** Such as {@code 1.23 (1.20-1.30)}: median, least and most. */
  static String text(List<Double> seconds) {
    List<Double> sorted = seconds.stream().sorted().toList();
    return String.format(
        Locale.ROOT,
        "%.2f (%.2f-%.2f)",
        median(sorted),
        sorted.get(0),
        sorted.get(sorted.size() - 1));
  }
}
