package dev.gpuprocess.internal.call;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.internal.time.Durations;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Runs the disk work of an operation within its time limit. Work on a disk that hangs cannot be
 * interrupted: its thread is abandoned, and undoes the work when it ends after all. For one thread.
 */
public final class BoundedDiskTask {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private final String operation;
  private final int pid;
  private final Path disk;
  private final Duration limit;
  private final long end;
  private volatile boolean hangs;

  /**
   * The work of an operation that begins now.
   *
   * @param disk the path by which the operator knows the disk
   */
  public BoundedDiskTask(String operation, int pid, Path disk, Duration limit) {
    this.operation = operation;
    this.pid = pid;
    this.disk = disk;
    this.limit = limit;
    this.end = Durations.end(limit);
  }

  /** Images in one directory are on one disk; a disk that hangs cannot be asked which one it is. */
  private static Path place(Path image) {
    Path parent = image.getParent();
    return parent == null ? image : parent;
  }

  /**
   * Refuses to begin when too many tasks hang on the disk.
   *
   * @throws dev.gpuprocess.error.OperationInProgressException when they do
   */
  public void requireCapacity() {
    BoundedCall.requireCapacity(place(disk), operation + " of process " + pid);
  }

  /**
   * True when a thread was abandoned. It may still be working, so nobody else may touch its files.
   */
  public boolean hangs() {
    return hangs;
  }

  /**
   * Runs work that the operation needs.
   *
   * @param undo called on the abandoned thread when the work ends after all; with null when the
   *     work failed
   * @throws OperationTimedOutException when the time of the operation is up
   */
  public <T> T run(String what, Supplier<T> work, Consumer<@Nullable T> undo) {
    long left = Durations.left(end);
    if (left <= 0) {
      throw new OperationTimedOutException(
          "%s of process %s ran out of its deadline of %s before it used the disk: allow more time; what a listener does counts towards it"
              .formatted(operation, pid, Printable.of(limit)),
          Failure.of(operation, pid));
    }
    try {
      return call(what, Duration.ofNanos(left), work, undo);
    } catch (TimeoutException e) {
      throw new OperationTimedOutException(
          "%s of process %s: the disk of %s did not answer within the time limit of %s: look at the disk; what is still being written there will be removed"
              .formatted(operation, pid, disk, Printable.of(limit)),
          Failure.of(operation, pid),
          e);
    }
  }

  /** Cleans up, also after the time of the operation is up, but only for so long. */
  public void tidy(String what, Duration patience, Runnable work) {
    try {
      call(
          what,
          patience,
          () -> {
            work.run();
            return true;
          },
          done -> {});
    } catch (TimeoutException e) {
      LOG.warn("the disk of {} does not answer; it is cleaned up when it does", disk);
    }
  }

  private <T> T call(String what, Duration limit, Supplier<T> work, Consumer<@Nullable T> undo)
      throws TimeoutException {
    try {
      return BoundedCall.run(
          place(disk),
          what + " " + pid,
          limit,
          work,
          (done, failure) -> {
            LOG.info(
                "{} of process {} at {} ended late: {}",
                what,
                pid,
                disk,
                failure == null ? done : failure);
            undo.accept(done);
          });
    } catch (TimeoutException e) {
      hangs = true;
      throw e;
    }
  }
}
