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
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Accesses to a directory, none of which waits for a file system that hangs longer than a limit. A
 * slow disk, which completes writes meanwhile, may take several times as long. While one access
 * hangs the others are refused at once.
 *
 * @param path the directory
 * @param limit how long its file system may take to answer
 */
public record BoundedDirectory(Path path, Duration limit) {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /**
   * Does something in the directory.
   *
   * @param late gets the result when it comes after the limit
   * @throws IOException what it throws; also when the file system does not answer in time
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

  /** Does something whose result nobody misses. */
  public <T> T get(String what, IoSupplier<T> access) throws IOException {
    return get(what, access, late -> {});
  }

  /** Does something without a result. */
  public void run(String what, IoAction task) throws IOException {
    boolean unused = get(what, done(task));
  }

  /** Does something in any case: later, when the file system does not answer in time. */
  public void runEvenLate(String what, IoAction task) {
    try {
      boolean unused =
          BoundedCall.hangs(this)
              ? call(what, Duration.ZERO, () -> Duration.ZERO, done(task), late -> {})
              : call(what, limit, new SlowDisk(path, limit), done(task), late -> {});
    } catch (TimeoutException e) {
      LOG.warn("the file system of {} hangs: {} when it answers", path, what);
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
}
