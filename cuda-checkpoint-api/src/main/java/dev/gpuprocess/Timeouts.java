package dev.gpuprocess;

import java.time.Duration;

/**
 * How long driver calls may take. Immutable.
 *
 * @param lock how long a lock waits for GPU work when the caller does not say
 * @param call when a driver call is abandoned that moves no memory; a lock gets this much on top of
 *     its own timeout
 * @param transfer when a driver call is abandoned that moves memory
 */
public record Timeouts(Duration lock, Duration call, Duration transfer) {

  /**
   * Checks the values.
   *
   * @throws IllegalArgumentException unless all are positive
   */
  public Timeouts {
    for (Duration time : new Duration[] {lock, call, transfer}) {
      if (time.isNegative() || time.isZero()) {
        throw new IllegalArgumentException("a timeout must be positive, not " + time);
      }
    }
  }

  /**
   * What suits most machines: 10 seconds for locks and other calls, 10 minutes for moving memory.
   *
   * @return the defaults
   */
  public static Timeouts ofDefaults() {
    return new Timeouts(Duration.ofSeconds(10), Duration.ofSeconds(10), Duration.ofMinutes(10));
  }
}
