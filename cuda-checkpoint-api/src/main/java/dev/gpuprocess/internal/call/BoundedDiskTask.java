package dev.gpuprocess.internal.call;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.internal.time.Deadline;
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
 * interrupted: its thread is abandoned, and undoes the work when that ends. For one thread.
 */
public final class BoundedDiskTask {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private final String operation;
  private final int pid;
  private final Path disk;
  private final Duration limit;
  private final Deadline deadline;
  private volatile boolean hangs;

  /**
   * Creates the work of an operation that begins now.
   *
   * @param disk a path on the disk, for messages
   */
  public BoundedDiskTask(String operation, int pid, Path disk, Duration limit) {
    this.operation = operation;
    this.pid = pid;
    this.disk = disk;
    this.limit = limit;
    this.deadline = Deadline.after(limit);
  }

  /** Returns the work of the same operation that begins now. */
  public BoundedDiskTask anew(Duration limit) {
    return new BoundedDiskTask(operation, pid, disk, limit);
  }

  /** Images in one directory are on one disk. A disk that hangs cannot be identified otherwise. */
  private static Path place(Path image) {
    Path parent = image.getParent();
    return parent == null ? image : parent;
  }

  /**
   * Refuses to begin if too many tasks hang on the disk.
   *
   * @throws dev.gpuprocess.error.OperationInProgressException if so
   */
  public void requireCapacity() {
    BoundedCall.requireCapacity(place(disk), operation + " of process " + pid);
  }

  /**
   * Returns whether a thread was abandoned. It may still be working, so no other thread may use its
   * files.
   */
  public boolean hangs() {
    return hangs;
  }

  /**
   * Runs work of the operation.
   *
   * @param undo called on an abandoned thread when its work ends; with null if the work failed
   * @throws OperationTimedOutException at the time limit of the operation
   */
  public <T> T run(String what, Supplier<T> work, Consumer<@Nullable T> undo) {
    if (deadline.passed()) {
      throw new OperationTimedOutException(
          "%s of process %s reached its deadline of %s before it used the disk: allow more time, in which the time of listeners counts"
              .formatted(operation, pid, Printable.of(limit)),
          Failure.of(operation, pid));
    }
    try {
      return call(what, deadline.remaining(), work, undo);
    } catch (TimeoutException e) {
      throw new OperationTimedOutException(
          "%s of process %s: the disk of %s did not answer within the time limit of %s: check the disk; unfinished files on it will be removed"
              .formatted(operation, pid, disk, Printable.of(limit)),
          Failure.of(operation, pid),
          e);
    }
  }

  /** Cleans up, also after the time limit of the operation, within a limit of its own. */
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
