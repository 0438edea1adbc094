package dev.gpuprocess;

import static java.util.Objects.requireNonNull;

import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.RetentionPolicy;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** What all plans of snapshots have: where the images go, how each is made, and who is told. */
abstract sealed class Plan permits SnapshotPlan, RequestPlan {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private final ImageStore place;
  private final RetentionPolicy retention;
  private final DumpOptions options;
  private final SnapshotListener listener;

  Plan(Builder<?> from) {
    this.place = from.place;
    this.retention = from.retention;
    this.options = from.options;
    this.listener = from.listener;
  }

  /**
   * Where the images are.
   *
   * @return their store
   */
  public final ImageStore place() {
    return place;
  }

  /**
   * Which images stay.
   *
   * @return applied after each image that is made
   */
  public final RetentionPolicy retention() {
    return retention;
  }

  /**
   * How each image is made.
   *
   * @return the options of each snapshot
   */
  public final DumpOptions options() {
    return options;
  }

  /**
   * Who is told.
   *
   * @return the listener
   */
  public final SnapshotListener listener() {
    return listener;
  }

  /** Makes sure that its store reads what these settings write. */
  final void requireFor(EngineContext context) {
    if (!place.isFor(context)) {
      throw new IllegalArgumentException(
          "%s are read with another image key than those of this plan are made with: take the store of the same GpuCheckpoints"
              .formatted(place));
    }
  }

  /** An image was made just now: tells of it, and removes what is not to stay. */
  final void keep(ProcessImage image) {
    place.made(image);
    tell(to -> to.made(image));
    place.prune(
        retention, report -> tell(to -> to.pruned(report)), why -> tell(to -> to.pruneFailed(why)));
  }

  /** A listener that fails ends nothing. */
  final void tell(Consumer<SnapshotListener> news) {
    try {
      news.accept(listener);
    } catch (Throwable e) {
      LOG.warn("the listener of the snapshots to {} failed", place.directory(), e);
    }
  }

  /**
   * Builds what all plans have.
   *
   * @param <B> the builder of a plan
   */
  abstract static sealed class Builder<B extends Builder<B>>
      permits SnapshotPlan.Builder, RequestPlan.Builder {

    private final ImageStore place;
    private RetentionPolicy retention = RetentionPolicy.ofDefaults();
    private DumpOptions options = DumpOptions.ofDefaults();
    private SnapshotListener listener = SnapshotListener.NONE;

    Builder(ImageStore place) {
      this.place = requireNonNull(place, "place");
    }

    abstract B self();

    /**
     * Sets which images stay.
     *
     * @param policy by default {@link RetentionPolicy#ofDefaults()}
     * @return this builder
     */
    public final B retention(RetentionPolicy policy) {
      this.retention = requireNonNull(policy, "policy");
      return self();
    }

    /**
     * Sets how each image is made.
     *
     * @param options by default {@link DumpOptions#ofDefaults()}; what is dumped is left running
     *     whatever they say
     * @return this builder
     */
    public final B options(DumpOptions options) {
      this.options = requireNonNull(options, "options");
      return self();
    }

    /**
     * Sets who is told of each snapshot.
     *
     * @param listener by default nobody
     * @return this builder
     */
    public final B listener(SnapshotListener listener) {
      this.listener = requireNonNull(listener, "listener");
      return self();
    }
  }
}
