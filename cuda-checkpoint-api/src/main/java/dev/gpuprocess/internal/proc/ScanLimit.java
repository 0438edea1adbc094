package dev.gpuprocess.internal.proc;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.internal.time.Durations;
import java.time.Duration;

/**
 * How long a look through a process tree may take. A tree can be made so large that the look takes
 * longer than the operation that it is for. Immutable.
 */
public final class ScanLimit {

  private static final Duration LONGEST = Duration.ofDays(10_000);
  private static final Duration LEAST = Duration.ofMillis(1);

  private final String operation;
  private final long pid;
  private final Duration total;
  private final long start = System.nanoTime();

  private ScanLimit(String operation, long pid, Duration total) {
    this.operation = operation;
    this.pid = pid;
    this.total = total.compareTo(LONGEST) > 0 ? LONGEST : total;
  }

  /**
   * Begins now.
   *
   * @param operation what the look is for, such as {@code dump}
   * @param pid the root of the tree
   * @param total how long it may take
   * @return the limit
   */
  public static ScanLimit of(String operation, long pid, Duration total) {
    return new ScanLimit(operation, pid, total);
  }

  /**
   * What is left for the next part of the same operation.
   *
   * @return at least a millisecond
   */
  public Duration remaining() {
    Duration left = total.minusNanos(System.nanoTime() - start);
    return left.compareTo(LEAST) < 0 ? LEAST : left;
  }

  /**
   * Called for every few things that were looked at.
   *
   * @throws OperationTimedOutException when the time is over
   */
  public void check() {
    if (System.nanoTime() - start > Durations.nanos(total)) {
      throw new OperationTimedOutException(
          "%s of process %s: its tree has so much that looking through it took the %s that the operation had; nothing was touched: allow more time (DumpOptions.deadline), or look what the job opens and maps"
              .formatted(operation, pid, total),
          Failure.of(operation, pid));
    }
  }
}
