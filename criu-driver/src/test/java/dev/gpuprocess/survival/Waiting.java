package dev.gpuprocess.survival;

import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;

/** Waits for conditions by polling. */
final class Waiting {

  private static final long PAUSE_NANOS = 2_000_000;

  private Waiting() {}

  /** Polls until the result is present; empty at the deadline. */
  static <T> Optional<T> forValue(Duration patience, Supplier<Optional<T>> question) {
    long end = System.nanoTime() + patience.toNanos();
    while (true) {
      Optional<T> answer = question.get();
      if (answer.isPresent() || System.nanoTime() > end) {
        return answer;
      }
      LockSupport.parkNanos(PAUSE_NANOS);
    }
  }

  /** Polls until the condition holds; false at the deadline. */
  static boolean until(Duration patience, BooleanSupplier condition) {
    return forValue(patience, () -> condition.getAsBoolean() ? Optional.of(true) : Optional.empty())
        .isPresent();
  }
}
