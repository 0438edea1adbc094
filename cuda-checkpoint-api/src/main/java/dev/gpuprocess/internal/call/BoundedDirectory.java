package dev.gpuprocess.internal.call;

import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.internal.time.IoAction;
import dev.gpuprocess.internal.time.IoSupplier;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.FileSystemException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A directory on a file system that may hang. No access waits for longer than the limit, or several
 * times the limit if the disk is slow, which is the case if it completes writes during that time.
 * While one access hangs, the others are refused at once.
 *
 * @param limit the time of the file system for one access
 */
public record BoundedDirectory(Path path, Duration limit) {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /**
   * Runs an access to the directory.
   *
   * @param late gets a result that comes after the limit
   * @throws IOException if the access throws it, or the file system does not respond in time
   */
  public <T> T get(String what, IoSupplier<T> access, Consumer<T> late) throws IOException {
    try {
      if (BoundedCall.hangs(this)) {
        throw new TimeoutException();
      }
      return call(what, limit, new SlowDisk(path, limit), access, late);
    } catch (TimeoutException e) {
      throw new FileSystemException(
          path.toString(),
          null,
          "does not answer within %s: its file system hangs".formatted(Printable.of(limit)));
    }
  }

  /** Runs an access whose late result is discarded. */
  public <T> T get(String what, IoSupplier<T> access) throws IOException {
    return get(what, access, late -> {});
  }

  /** Runs an access without a result. */
  public void run(String what, IoAction task) throws IOException {
    get(what, done(task));
  }

  /** Runs an access in any case: later if the file system does not respond in time. */
  public void runEvenLate(String what, IoAction task) {
    try {
      if (BoundedCall.hangs(this)) {
        call(what, Duration.ZERO, () -> Duration.ZERO, done(task), late -> {});
      } else {
        call(what, limit, new SlowDisk(path, limit), done(task), late -> {});
      }
    } catch (TimeoutException e) {
      LOG.warn("the file system of {} hangs: {} is done when it responds", path, what);
    } catch (IOException e) {
      LOG.warn("{} in {} failed: {}", what, path, e.toString());
    }
  }

  private static IoSupplier<Boolean> done(IoAction task) {
    return () -> {
      task.run();
      return true;
    };
  }

  private <T> T call(
      String what,
      Duration patience,
      Supplier<Duration> more,
      IoSupplier<T> access,
      Consumer<T> late)
      throws IOException, TimeoutException {
    try {
      return BoundedCall.run(
          this,
          what + " in " + path,
          patience,
          more,
          () -> {
            try {
              return access.get();
            } catch (IOException e) {
              throw new UncheckedIOException(e);
            }
          },
          (value, failure) -> {
            if (value != null) {
              late.accept(value);
            }
          });
    } catch (UncheckedIOException e) {
      throw e.getCause();
    }
  }

  // Written out, since the first call of a record's own method takes 20 ms in a short program.

  @Override
  public boolean equals(@Nullable Object other) {
    return other instanceof BoundedDirectory same
        && path.equals(same.path)
        && limit.equals(same.limit);
  }

  @Override
  public int hashCode() {
    return 31 * path.hashCode() + limit.hashCode();
  }
}
