package dev.gpuprocess.internal.call;

import dev.gpuprocess.internal.proc.DiskWrites;
import dev.gpuprocess.internal.proc.Unreadable;
import dev.gpuprocess.internal.time.Durations;
import java.nio.file.Path;
import java.time.Duration;
import java.util.OptionalLong;
import java.util.function.Supplier;

/**
 * The additional time of one access to a file system that has not responded in time: one slice
 * after the other while the disk completes writes, up to a number of slices. For one thread.
 */
final class SlowDisk implements Supplier<Duration> {

  /** The most slices, each of half the limit. */
  private static final int MOST = 24;

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
    this(limit, () -> DiskWrites.below(path));
  }

  /** Uses another count of completed writes. */
  SlowDisk(Duration limit, Supplier<OptionalLong> writes) {
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
    return Unreadable.as(OptionalLong.empty(), writes);
  }
}
