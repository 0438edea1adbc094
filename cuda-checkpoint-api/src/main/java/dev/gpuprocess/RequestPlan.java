package dev.gpuprocess;

import static java.util.Objects.requireNonNull;

import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.RetentionPolicy;

/**
 * Where the snapshots go that a launched job asks for, and which of them stay. Immutable.
 *
 * <p>A job that is {@linkplain GpuCheckpoints#launch(dev.gpuprocess.options.LaunchOptions,
 * RequestPlan) launched} with a plan has a small process of this library as its root, and the
 * command as the child of that: so a program may do with signals what it likes, and nothing is
 * loaded into it for this. The root is dumped and restored with the job, and
 *
 * <ul>
 *   <li>takes SIGUSR1 as a request for a snapshot at the next moment at which the GPUs are idle:
 *       they are locked for at most 50 ms, at first four times a second and later every other
 *       second, until that succeeds and no other verb has the job;
 *   <li>takes SIGUSR2 as a request for a snapshot now: as {@link RunningJob#snapshot(
 *       java.nio.file.Path, DumpOptions)}, which holds CUDA calls back until GPU work has ended. It
 *       makes a request that waits for idle GPUs urgent;
 *   <li>listens on a UNIX stream socket, whose path the job has in {@code GPUPROCESS_SOCKET}, for
 *       one line, {@code idle} or {@code now}, and answers with one line when the snapshot is made:
 *       {@code original} to who goes on, and {@code restored} to who has come back from its image,
 *       however often and wherever that is, and whoever restores it. A dump by another verb
 *       meanwhile counts like it. Every process of the job may ask; all who wait share a snapshot;
 *   <li>answers {@code refused:} and a reason when there is none: it failed, another one is being
 *       made, the JVM that has launched the job is gone (which is noticed within seconds), or the
 *       line is another. Who is no descendant of the root is answered {@code asked} at once, as it
 *       is in no image. Users other than the job's and root are refused, who says nothing within
 *       five seconds is let go, and 64 connections are taken at a time;
 *   <li>passes every other signal on to the command, and ends as that does. The root of an
 *       {@linkplain dev.gpuprocess.options.LaunchOptions.Builder#isolated isolated} job exits with
 *       128 and the signal's number when a signal has ended the command.
 * </ul>
 *
 * <p>The pid to be signalled is that of {@link LaunchedJob#identity()}; the job has it, as it sees
 * it, in {@code GPUPROCESS_ROOT}. A signal that cannot be served now, as when a snapshot is being
 * made, is lost. The command leads a process group of its own in the session of the job. After a
 * restore that brings the job back for the JVM that has launched it, requests are taken again;
 * after any other, and in further copies of an isolated job, they are refused.
 *
 * <p>The snapshots are made by daemon threads of this JVM, which end with the job. One that failed
 * and left the job suspended has it resumed. Nothing that fails ends this.
 */
public final class RequestPlan {

  private final ImageStore place;
  private final RetentionPolicy retention;
  private final DumpOptions options;
  private final RequestListener listener;

  private RequestPlan(Builder from) {
    this.place = from.place;
    this.retention = from.retention;
    this.options = from.options;
    this.listener = from.listener;
  }

  /**
   * Starts a plan.
   *
   * @param place the images' directory, of the same settings as the job, and with room for one
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
   * Who is told.
   *
   * @return the listener
   */
  public RequestListener listener() {
    return listener;
  }

  /** Builds {@link RequestPlan}. Not for use by several threads. */
  public static final class Builder {

    private final ImageStore place;
    private RetentionPolicy retention = RetentionPolicy.ofDefaults();
    private DumpOptions options = DumpOptions.ofDefaults();
    private RequestListener listener = RequestListener.NONE;

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
     * @param options by default {@link DumpOptions#ofDefaults()}; the job is left running whatever
     *     they say
     * @return this builder
     */
    public Builder options(DumpOptions options) {
      this.options = requireNonNull(options, "options");
      return this;
    }

    /**
     * Sets who is told of each snapshot.
     *
     * @param listener by default nobody
     * @return this builder
     */
    public Builder listener(RequestListener listener) {
      this.listener = requireNonNull(listener, "listener");
      return this;
    }

    /**
     * Takes the values as they are now; the builder may be used again.
     *
     * @return the plan
     */
    public RequestPlan build() {
      return new RequestPlan(this);
    }
  }
}
