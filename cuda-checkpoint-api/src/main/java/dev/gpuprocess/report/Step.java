package dev.gpuprocess.report;

import java.time.Duration;

/**
 * One step of an operation on a process. Immutable.
 *
 * @param name such as {@code lock}, {@code checkpoint} or {@code dump}; docs/guide.md lists all
 * @param pid the process
 * @param duration how long it took
 * @param bytes how many bytes it moved; 0 where it moves nothing or the number is not known
 * @param note how it was done, where there is more than one way, and why not in the faster one;
 *     empty otherwise
 */
public record Step(String name, int pid, Duration duration, long bytes, String note) {

  /**
   * How fast the step moved data.
   *
   * @return bytes per second; 0 where nothing moved
   */
  public double bytesPerSecond() {
    long nanos = duration.toNanos();
    return bytes == 0 || nanos == 0 ? 0 : bytes * 1e9 / nanos;
  }
}
