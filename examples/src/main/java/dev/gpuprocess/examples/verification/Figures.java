package dev.gpuprocess.examples.verification;

import dev.gpuprocess.report.Step;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;

/**
 * The steps of a trip to disk and back in one line, such as {@code checkpoint 1.62 s 2.65 GB/s}.
 */
final class Figures {

  private Figures() {}

  /** Returns the steps from the last checkpoint on, without unlock. */
  static String ofLastTrip(List<Step> steps) {
    int from = steps.stream().map(Step::name).toList().lastIndexOf("checkpoint");
    return steps.stream()
        .skip(Math.max(0, from))
        .filter(step -> !step.name().equals("unlock"))
        .map(Figures::of)
        .collect(Collectors.joining(", "));
  }

  private static String of(Step step) {
    String time =
        String.format(Locale.ROOT, "%s %.2f s", step.name(), step.duration().toNanos() / 1e9);
    // The speed of a few kilobytes is meaningless.
    return step.bytes() < 1 << 20
        ? time
        : time + String.format(Locale.ROOT, " %.2f GB/s", step.bytesPerSecond() / 1e9);
  }
}
