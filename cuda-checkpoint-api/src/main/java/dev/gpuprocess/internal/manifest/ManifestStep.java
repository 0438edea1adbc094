package dev.gpuprocess.internal.manifest;

import dev.gpuprocess.report.Step;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.regex.Pattern;

/**
 * A step on the way into an image, and how long it took. Immutable.
 *
 * @param name such as {@code lock}, {@code checkpoint} or {@code write}; CRIU's own dump is not
 *     among them, as it ends after the image has been described
 * @param pid the member of the process that it was a step of, or the root, as the controller saw it
 * @param microseconds how long it took; steps of several members overlap
 * @param bytes how many bytes it moved; 0 where it moves nothing or the number is not known
 */
public record ManifestStep(String name, int pid, long microseconds, long bytes) {

  private static final Pattern NAME = Pattern.compile("[a-z][a-z -]{0,39}");

  /**
   * Checks every part.
   *
   * @throws IllegalArgumentException when a part is impossible
   */
  public ManifestStep {
    if (!NAME.matcher(name).matches() || pid < 1 || microseconds < 0 || bytes < 0) {
      throw new IllegalArgumentException("there is no such step of process " + pid);
    }
  }

  /** Returns what callers see of it. */
  Step summary() {
    return new Step(name, pid, Duration.of(microseconds, ChronoUnit.MICROS), bytes, "");
  }
}
