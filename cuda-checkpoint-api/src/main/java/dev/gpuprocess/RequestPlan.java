package dev.gpuprocess;

import static java.util.Objects.requireNonNull;

import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.RetentionPolicy;

/**
 * Where the snapshots go that a job asks for, and which of them stay; see {@link
 * GpuCheckpoints#launch(dev.gpuprocess.options.LaunchOptions, RequestPlan)}. Immutable.
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
