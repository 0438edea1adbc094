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
 * What is done on the disk of an image, for as long as the operation may take. A disk that hangs
 * cannot be interrupted: the thread stays with it, and undoes what comes of it one day. For one
 * thread.
 */
public final class BoundedDiskTask {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private final String operation;
  private final int pid;
  private final Path disk;
  private final Duration limit;
  private final long end;
  private boolean hangs;

  /**
   * The work of one operation, which begins now.
   *
   * @param disk what the operator knows it by
   */
  public BoundedDiskTask(String operation, int pid, Path disk, Duration limit) {
    this.operation = operation;
    this.pid = pid;
    this.disk = disk;
    this.limit = limit;
    this.end = Durations.end(limit);
  }

  /** Images side by side are on one disk; which one it is cannot be asked of one that hangs. */
  private static Path place(Path image) {
    Path parent = image.getParent();
    return parent == null ? image : parent;
  }

  /**
   * Called before the first work.
   *
   * @throws dev.gpuprocess.error.OperationInProgressException when too much hangs there already
   */
  public void requireCapacity() {
    BoundedCall.requireCapacity(place(disk), operation + " of process " + pid);
  }

  /** True when a thread was left behind; it has what it works on, and nobody else may touch it. */
  public boolean hangs() {
    return hangs;
  }

  /**
   * Does what the operation cannot do without.
   *
   * @param undo told on the thread that was left behind when it is done after all; with null when
   *     it failed
   * @throws OperationTimedOutException when the time of the operation is over
   */
  public <T> T run(String what, Supplier<T> work, Consumer<@Nullable T> undo) {
    long left = Durations.left(end);
    if (left <= 0) {
      throw new OperationTimedOutException(
          "%s of process %s: the %s that the operation had were over before its step '%s' began, and not for the disk: allow more time, or look at what took it, such as a listener"
              .formatted(operation, pid, Printable.of(limit), what),
          Failure.of(operation, pid));
    }
    try {
      return call(what, Duration.ofNanos(left), work, undo);
    } catch (TimeoutException e) {
      throw new OperationTimedOutException(
          "%s of process %s: the disk of %s did not answer in the %s that the operation had; look at the disk; nothing that it still writes will stay"
              .formatted(operation, pid, disk, Printable.of(limit)),
          Failure.of(operation, pid),
          e);
    }
  }

  /** Tidies up, for a while also when the time of the operation is over. */
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
      LOG.warn("the disk of {} does not answer; it is tidied up when it does", disk);
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
                "{} of process {} at {} came back late: {}",
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
