package dev.gpuprocess;

import static java.util.Objects.requireNonNull;

import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.RetentionPolicy;
import java.time.Duration;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Where snapshots go, which of them stay, how each is made, and which listener is notified.
 * Immutable. For {@link RunningProcess#repeatSnapshots}, which makes them at an interval, and for
 * processes that request snapshots of themselves.
 *
 * <p>A process that is {@linkplain GpuCheckpoints#launch(dev.gpuprocess.options.LaunchOptions,
 * SnapshotPlan) launched} with a plan has a small process of this library as its root, and the
 * command as the child of that: so a program may do with signals what it likes, and nothing is
 * loaded into it for this. The root is dumped and restored with the process, and
 *
 * <ul>
 *   <li>takes SIGUSR1 as a request for a snapshot at the next moment at which the GPUs are idle:
 *       they are locked for at most 50 ms, at first four times a second and later every other
 *       second, until that succeeds and no other verb has the process;
 *   <li>takes SIGUSR2 as a request for a snapshot now: as {@link RunningProcess#snapshot(
 *       java.nio.file.Path, DumpOptions)}, which holds CUDA calls back until GPU work has ended. It
 *       makes a request that waits for idle GPUs urgent;
 *   <li>listens on a UNIX stream socket, whose path the process has in {@code GPUPROCESS_SOCKET},
 *       for one line, {@code idle} or {@code now}, and answers with one line when the snapshot is
 *       made: {@code original} in the process that continues, and {@code restored} in every copy
 *       restored from the image. A dump by another verb in that time counts as the snapshot. Every
 *       process of the tree may send a request; all requests that wait share a snapshot;
 *   <li>answers {@code refused:} and a reason when there is none: it failed, another one is being
 *       made, the JVM that has launched the process is gone (which is noticed within seconds), or
 *       the line is another. A process that is not a descendant of the root gets {@code asked} at
 *       once, since it is not in the image. Users other than the process's and root are refused, a
 *       connection that sends nothing within five seconds is closed, and 64 connections are
 *       accepted at a time;
 *   <li>passes every other signal on to the command, and ends as that does. The root of an
 *       {@linkplain dev.gpuprocess.options.LaunchOptions.Builder#isolated isolated} process exits
 *       with 128 and the signal's number when a signal has ended the command.
 * </ul>
 *
 * <p>The pid to be signalled is that of {@link LaunchedProcess#identity()}; the process has it, as
 * it sees it, in {@code GPUPROCESS_ROOT}. A signal that cannot be served now, as when a snapshot is
 * being made, is lost. The command leads a process group of its own in the session of the process.
 * After a restore that brings the process back for the JVM that has launched it, requests are taken
 * again; after any other, and in further copies of an isolated process, they are refused.
 *
 * <p>The snapshots are made by daemon threads of this JVM, which end with the process. After a
 * snapshot that failed and left the process suspended, the process is resumed. No failure ends the
 * threads.
 */
public final class SnapshotPlan {

  private static final Duration SHORTEST = Duration.ofMillis(1);

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private final ImageStore place;
  private final RetentionPolicy retention;
  private final DumpOptions options;
  private final SnapshotListener listener;
  private final Duration interval;
  private final Duration patience;

  private SnapshotPlan(Builder from) {
    this.place = from.place;
    this.retention = from.retention;
    this.options = from.options;
    this.listener = from.listener;
    this.interval = from.interval;
    this.patience = from.patience;
  }

  /**
   * Starts a plan.
   *
   * @param place the images' directory, of the same settings as the process, and with room for one
   *     image more than are kept
   * @return a builder
   */
  public static Builder into(ImageStore place) {
    return new Builder(place);
  }

  /**
   * Where the images are.
   *
   * @return their store
   */
  public ImageStore place() {
    return place;
  }

  /**
   * Which images stay.
   *
   * @return applied after each image that is made
   */
  public RetentionPolicy retention() {
    return retention;
  }

  /**
   * How each image is made.
   *
   * @return the options of each snapshot
   */
  public DumpOptions options() {
    return options;
  }

  /**
   * The listener of each snapshot.
   *
   * @return the listener
   */
  public SnapshotListener listener() {
    return listener;
  }

  /**
   * From the beginning of one repeated snapshot to that of the next.
   *
   * @return at least a millisecond
   */
  public Duration interval() {
    return interval;
  }

  /**
   * How long closing repeated snapshots waits for a snapshot that is being made.
   *
   * @return a duration, zero for not at all
   */
  public Duration patience() {
    return patience;
  }

  /** An image was made just now: tells of it, and removes what is not to stay. */
  void keep(ProcessImage image) {
    place.made(image);
    tell(to -> to.made(image));
    place.prune(
        retention, report -> tell(to -> to.pruned(report)), why -> tell(to -> to.pruneFailed(why)));
  }

  /** A listener that fails ends nothing. */
  void tell(Consumer<SnapshotListener> news) {
    try {
      news.accept(listener);
    } catch (Throwable e) {
      LOG.warn("the listener of the snapshots to {} failed", place.directory(), e);
    }
  }

  /** Builds {@link SnapshotPlan}. Not for use by several threads. */
  public static final class Builder {

    private final ImageStore place;
    private RetentionPolicy retention = RetentionPolicy.ofDefaults();
    private DumpOptions options = DumpOptions.ofDefaults();
    private SnapshotListener listener = SnapshotListener.NONE;
    private Duration interval = Duration.ofMinutes(10);
    private Duration patience = Duration.ofMinutes(10);

    private Builder(ImageStore place) {
      this.place = requireNonNull(place, "place");
    }

    /**
     * Sets which images stay.
     *
     * @param policy by default {@link RetentionPolicy#ofDefaults()}
     * @return this builder
     */
    public Builder retention(RetentionPolicy policy) {
      this.retention = requireNonNull(policy, "policy");
      return this;
    }

    /**
     * Sets how each image is made.
     *
     * @param options by default {@link DumpOptions#ofDefaults()}; the process is left running in
     *     any case
     * @return this builder
     */
    public Builder options(DumpOptions options) {
      this.options = requireNonNull(options, "options");
      return this;
    }

    /**
     * Sets the listener of each snapshot.
     *
     * @param listener by default none
     * @return this builder
     */
    public Builder listener(SnapshotListener listener) {
      this.listener = requireNonNull(listener, "listener");
      return this;
    }

    /**
     * Sets how often {@link RunningProcess#repeatSnapshots} makes a snapshot. A process that
     * requests its snapshots decides itself.
     *
     * @param interval from the beginning of one snapshot to that of the next; the first is due
     *     after one; 10 minutes by default
     * @return this builder
     * @throws IllegalArgumentException when the interval is less than a millisecond
     */
    public Builder every(Duration interval) {
      if (interval.compareTo(SHORTEST) < 0) {
        throw new IllegalArgumentException(
            "the interval of snapshots must be at least %s, not %s"
                .formatted(Printable.of(SHORTEST), Printable.of(interval)));
      }
      this.interval = interval;
      return this;
    }

    /**
     * Sets how long {@link RepeatedSnapshots#close()} waits for a snapshot that is being made.
     *
     * @param patience 10 minutes by default; zero does not wait
     * @return this builder
     * @throws IllegalArgumentException when it is negative
     */
    public Builder patience(Duration patience) {
      this.patience = Durations.notNegative("patience of a close", patience);
      return this;
    }

    /**
     * Takes the values as they are now; the builder may be used again.
     *
     * @return the plan
     */
    public SnapshotPlan build() {
      return new SnapshotPlan(this);
    }
  }
}
