package dev.gpuprocess.internal.call;

import dev.gpuprocess.internal.proc.DiskWrites;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.time.Durations;
import java.nio.file.Path;
import java.time.Duration;
import java.util.OptionalLong;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The additional time of one access to a file system that has not responded in time: one slice
 * after the other while the disk completes writes, up to a number of slices. For one thread.
 */
final class SlowDisk implements Supplier<Duration> {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** The most slices, each of half the limit. */
  private static final int MOST = 24;

  private final Path path;
  private final Duration slice;
  private final Supplier<OptionalLong> writes;
  private OptionalLong before = OptionalLong.of(-1);
  private int slices;

  /**
   * Creates the additional time of one access.
   *
   * @param limit the time that the access has used
   */
  SlowDisk(Path path, Duration limit) {
    this(path, limit, () -> DiskWrites.below(path));
  }

  /** Uses another count of completed writes. */
  SlowDisk(Path path, Duration limit, Supplier<OptionalLong> writes) {
    this.path = path;
    this.slice = Duration.ofNanos(Durations.nanos(limit) / 2);
    this.writes = writes;
  }

  /** Returns how much longer to wait; zero to abandon the access. */
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
