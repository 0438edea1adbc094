package dev.gpuprocess.options;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.internal.time.Durations;
import java.time.Duration;

/**
 * How long driver calls may take. Immutable. However long a time is, it does not overflow.
 *
 * @param lock how long a lock waits for GPU work when the caller does not say
 * @param call when a driver call is abandoned that moves no memory; a lock gets this much on top of
 *     its own timeout
 * @param transfer when a driver call is abandoned that moves memory
 * @param memory how long {@link CheckpointedProcess#close()} waits until the GPU has room; zero
 *     does not wait
 */
public record Timeouts(Duration lock, Duration call, Duration transfer, Duration memory) {

  private static final Duration MEMORY = Duration.ofSeconds(30);

  /**
   * Checks the values.
   *
   * @throws IllegalArgumentException unless all are positive, or zero for {@code memory}
   */
  public Timeouts {
    Durations.positive("timeout of a lock", lock);
    Durations.positive("timeout of a call", call);
    Durations.positive("timeout of a transfer", transfer);
    Durations.notNegative("time to wait for GPU memory", memory);
  }

  /**
   * With the default of 30 seconds for memory to come free.
   *
   * @param lock how long a lock waits for GPU work when the caller does not say
   * @param call when a driver call is abandoned that moves no memory
   * @param transfer when a driver call is abandoned that moves memory
   * @throws IllegalArgumentException unless all are positive
   */
  public Timeouts(Duration lock, Duration call, Duration transfer) {
    this(lock, call, transfer, MEMORY);
  }

  /**
   * What suits most machines: 10 seconds for locks and other calls, 10 minutes for moving memory,
   * 30 seconds for memory to come free.
   *
   * @return the defaults
   */
  public static Timeouts ofDefaults() {
    return new Timeouts(Duration.ofSeconds(10), Duration.ofSeconds(10), Duration.ofMinutes(10));
  }

  /**
   * With another time for memory to come free.
   *
   * @param time how long closing a checkpointed process waits; zero does not wait
   * @return a copy
   * @throws IllegalArgumentException when it is negative
   */
  public Timeouts withMemory(Duration time) {
    return new Timeouts(lock, call, transfer, time);
  }
}
