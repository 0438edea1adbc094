package dev.gpuprocess.internal.call;

import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.internal.proc.DiskWrites;
import java.nio.file.Path;
import java.time.Duration;
import java.util.OptionalLong;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The additional time of one access to a file system that has not answered in time: it may go on as
 * long as the disk completes writes, up to a number of slices of time. For one thread.
 */
final class SlowDisk implements Supplier<Duration> {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** Slices of half the limit each. */
  private static final int MOST = 24;

  private final Path path;
  private final Duration slice;
  private final Supplier<OptionalLong> writes;
  private OptionalLong before = OptionalLong.of(-1);
  private int slices;

  /**
   * For one access.
   *
   * @param limit the time that the access has had already
   */
  SlowDisk(Path path, Duration limit) {
    this(path, limit, () -> DiskWrites.below(path));
  }

  /** The same with another count of completed writes. */
  SlowDisk(Path path, Duration limit, Supplier<OptionalLong> writes) {
    this.path = path;
    this.slice = limit.dividedBy(2);
    this.writes = writes;
  }

  /** How much longer to wait; zero to give the access up. */
  @Override
  public Duration get() {
    OptionalLong now = completed();
    boolean isSlow = now.isPresent() && before.isPresent() && now.getAsLong() > before.getAsLong();
    before = now;
    slices++;
    return isSlow && slices <= MOST ? slice : Duration.ZERO;
  }

  private OptionalLong completed() {
    try {
      return writes.get();
    } catch (ProcessUnreadableException e) {
      LOG.debug("whether the disk of {} is slow or hangs is not known", path, e);
      return OptionalLong.empty();
    }
  }
}
