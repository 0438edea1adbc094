package dev.gpuprocess.internal.proc;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.internal.time.Durations;
import java.time.Duration;

/**
 * How long a scan of a process tree may take. A tree can be so large that the scan takes longer
 * than the operation that needs it. Immutable.
 */
public final class ScanLimit {

  private static final Duration LEAST = Duration.ofMillis(1);

  private final String operation;
  private final long pid;
  private final Duration total;
  private final long start = System.nanoTime();

  private ScanLimit(String operation, long pid, Duration total) {
    this.operation = operation;
    this.pid = pid;
    this.total = total;
  }

  /**
   * Begins now.
   *
   * @param operation what the scan is for, such as {@code dump}
   * @param pid the root of the tree
   * @param total how long it may take
   * @return the limit
   */
  public static ScanLimit of(String operation, long pid, Duration total) {
    return new ScanLimit(operation, pid, total);
  }

  /**
   * The time left for the next part of the same operation.
   *
   * @return at least a millisecond
   */
  public Duration remaining() {
    Duration left = total.minusNanos(System.nanoTime() - start);
    return left.compareTo(LEAST) < 0 ? LEAST : left;
  }

  /** How long the operation may take in all. */
  public Duration total() {
    return total;
  }

  /** Whether no time is left. */
  public boolean isUp() {
    return System.nanoTime() - start > Durations.nanos(total);
  }

  /**
   * To be called after every few items.
   *
   * @throws OperationTimedOutException when the time is up
   */
  public void check() {
    if (isUp()) {
      throw new OperationTimedOutException(
          "%s of process %s: scanning its tree took all of the %s that the operation had, and nothing was touched: allow more time (DumpOptions.deadline), or find out why the job has so many files and mappings"
              .formatted(operation, pid, total),
          Failure.of(operation, pid));
    }
  }
}
