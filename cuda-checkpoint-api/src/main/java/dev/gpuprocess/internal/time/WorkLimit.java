package dev.gpuprocess.internal.time;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.internal.text.Printable;
import java.time.Duration;
import java.util.function.BooleanSupplier;

/**
 * A time limit and a cancellation of work that takes long: a scan of a large process tree, the copy
 * of a process's memory, the verification of an image. The work checks it after every few pieces.
 * Immutable; may be shared between threads.
 */
public final class WorkLimit {

  private static final Duration LEAST = Duration.ofMillis(1);

  private final String operation;
  private final long pid;
  private final Deadline deadline;
  private final BooleanSupplier isCancelled;
  private final String cancelled;
  private final String late;

  private WorkLimit(
      String operation,
      long pid,
      Duration total,
      BooleanSupplier isCancelled,
      String cancelled,
      String late) {
    this.operation = operation;
    this.pid = pid;
    this.deadline = Deadline.after(total);
    this.isCancelled = isCancelled;
    this.cancelled = cancelled;
    this.late = late;
  }

  /**
   * Returns a limit for a scan of a process tree, which changes nothing. Begins now.
   *
   * @param operation what the scan is for, such as {@code dump}
   * @param pid the root of the tree
   * @param total how long it may take
   */
  public static WorkLimit scanning(String operation, long pid, Duration total) {
    return new WorkLimit(
        operation,
        pid,
        total,
        () -> false,
        "",
        "%s of process %s: scanning its tree took all of the %s that the operation had, and nothing was touched: allow more time (DumpOptions.deadline), or find out why the process has so many files and mappings"
            .formatted(operation, pid, Printable.of(total)));
  }

  /**
   * Returns a limit for the copy of the memory of a process into an image. Begins now.
   *
   * @param pid of the process that is dumped
   * @param total how long it may take
   * @param isCancelled whether to stop before that
   */
  public static WorkLimit copying(int pid, Duration total, BooleanSupplier isCancelled) {
    return new WorkLimit(
        "dump",
        pid,
        total,
        isCancelled,
        "the dump of process %s was cancelled while its memory was copied into the image"
            .formatted(pid),
        "the dump of process %s was stopped while its memory was copied into the image, as it may take no longer than %s: allow more time, or use a faster disk"
            .formatted(pid, Printable.of(total)));
  }

  /**
   * Returns a limit for the verification of an image. Large images take minutes, and sparse images
   * of a few blocks can be made to take days. Begins now.
   *
   * @param operation what the image is read for, such as {@code restore}
   * @param pid of the process in the image
   * @param total how long it may take
   * @param isCancelled whether to stop before that
   */
  public static WorkLimit reading(
      String operation, int pid, Duration total, BooleanSupplier isCancelled) {
    return new WorkLimit(
        operation,
        pid,
        total,
        isCancelled,
        "%s of the image of process %s was cancelled while the image was being read; the image is as it was"
            .formatted(operation, pid),
        "%s of the image of process %s did not begin, because verifying the image took longer than the %s available: allow more time"
            .formatted(operation, pid, Printable.of(total)));
  }

  /** Returns a limit for the verification of an image without a time limit. */
  public static WorkLimit readingAtLength(String operation, int pid, BooleanSupplier isCancelled) {
    return reading(operation, pid, Durations.LONGEST, isCancelled);
  }

  /**
   * Returns the time left for the next part of the same operation.
   *
   * @return at least a millisecond
   */
  public Duration remaining() {
    Duration left = deadline.remaining();
    return Durations.max(left, LEAST);
  }

  /** Returns how long the operation may take in all. */
  public Duration total() {
    return deadline.total();
  }

  /** Returns whether no time is left. */
  public boolean isUp() {
    return deadline.passed();
  }

  /**
   * Checks that the work may go on.
   *
   * @throws OperationCancelledException when the operation was cancelled
   * @throws OperationTimedOutException when the time is up
   */
  public void check() {
    if (isCancelled.getAsBoolean()) {
      throw new OperationCancelledException(cancelled, Failure.of(operation, pid));
    }
    if (isUp()) {
      throw new OperationTimedOutException(late, Failure.of(operation, pid));
    }
  }
}
