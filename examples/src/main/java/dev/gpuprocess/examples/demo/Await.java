package dev.gpuprocess.examples.demo;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;

/** Waits for changes in other processes, by polling. */
public final class Await {

  private static final long PAUSE_NANOS = TimeUnit.MILLISECONDS.toNanos(2);

  private Await() {}

  /** Waits until a condition holds; returns false if it does not hold within the limit. */
  public static boolean until(Duration limit, BooleanSupplier condition) {
    long deadline = System.nanoTime() + limit.toNanos();
    while (!condition.getAsBoolean()) {
      if (System.nanoTime() - deadline >= 0) {
        return false;
      }
      LockSupport.parkNanos(PAUSE_NANOS);
    }
    return true;
  }
}
