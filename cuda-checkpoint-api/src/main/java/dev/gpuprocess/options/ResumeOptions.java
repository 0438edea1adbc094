package dev.gpuprocess.options;

import static java.util.Objects.requireNonNull;

import dev.gpuprocess.cuda.GpuMap;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.internal.time.Durations;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** How a process is moved back to its GPU. Immutable. */
public final class ResumeOptions {

  private static final ResumeOptions DEFAULTS = new Builder().build();

  private final Builder set;

  private ResumeOptions(Builder set) {
    this.set = set;
  }

  /**
   * Back to the same GPU, without waiting and without a fallback image.
   *
   * @return the defaults
   */
  public static ResumeOptions ofDefaults() {
    return DEFAULTS;
  }

  /**
   * Starts from the defaults.
   *
   * @return a builder
   */
  public static Builder builder() {
    return new Builder();
  }

  /**
   * Starts from these options.
   *
   * @return a builder
   */
  public Builder toBuilder() {
    return set.copy();
  }

  /**
   * The GPU that the memory of each GPU goes to.
   *
   * @return {@link GpuMap#same()} if nothing was said
   */
  public GpuMap gpus() {
    return set.gpus;
  }

  /**
   * How long to wait until the GPU has room.
   *
   * @return zero does not wait
   */
  public Duration waitForMemory() {
    return set.waitForMemory;
  }

  /**
   * Where an image is made before the restore.
   *
   * @return empty for none
   */
  public Optional<Path> fallbackImage() {
    return Optional.ofNullable(set.fallbackImage);
  }

  /**
   * What the process held on each GPU, in bytes.
   *
   * @return empty to have the library find out
   */
  public Optional<Map<GpuUuid, Long>> needs() {
    return Optional.ofNullable(set.needs);
  }

  /**
   * The time of the whole operation.
   *
   * @return positive; by default longer than any operation
   */
  public Duration deadline() {
    return set.deadline;
  }

  /**
   * What ends the operation early.
   *
   * @return empty for nothing
   */
  public Optional<Cancellation> cancellation() {
    return Optional.ofNullable(set.cancellation);
  }

  /** Builds {@link ResumeOptions}. Not for use by several threads. */
  public static final class Builder extends OptionsBuilder<Builder> {

    private GpuMap gpus = GpuMap.same();
    private Duration waitForMemory = Duration.ZERO;
    private @Nullable Path fallbackImage;
    private @Nullable Map<GpuUuid, Long> needs;
    private Duration deadline = Durations.LONGEST;
    private @Nullable Cancellation cancellation;

    private Builder() {}

    /**
     * Moves the process to other GPUs of the same kind (CUDA 13.0, driver 580, or later).
     *
     * @param map where the memory of each GPU goes; {@link GpuMap#same()} is the default
     * @return this builder
     */
    public Builder gpus(GpuMap map) {
      this.gpus = requireNonNull(map, "map");
      return this;
    }

    /**
     * Waits until the GPU has enough free memory. The wait ends early when the process ends or
     * another controller moves it, when the thread is interrupted, and with {@link #cancellation}.
     *
     * @param time the longest wait; {@code ChronoUnit.FOREVER.getDuration()} waits as long as it
     *     takes; zero, the default, does not wait
     * @return this builder
     * @throws IllegalArgumentException when it is negative
     */
    public Builder waitForMemory(Duration time) {
      this.waitForMemory = Durations.notNegative("time to wait for GPU memory", time);
      return this;
    }

    /**
     * Makes an image before the restore, in case a program that does not use this library takes the
     * memory between the check and the restore, which would lose the process.
     *
     * @param directory as for {@link dev.gpuprocess.CheckpointedProcess#dump(Path)}; the image
     *     stays there afterwards
     * @return this builder
     */
    public Builder fallbackImage(Path directory) {
      this.fallbackImage = requireNonNull(directory, "directory");
      return this;
    }

    /**
     * States how much memory the process held on its GPUs, for when the library does not know:
     * without this, the restore is refused with {@link
     * dev.gpuprocess.error.InsufficientGpuMemoryException} and reason UNKNOWN_NEED unless there is
     * room for the most that it can have held. If the process needs more than is stated here, the
     * restore may run out of GPU memory and lose the process.
     *
     * @param bytes in bytes, by the GPU that the process was on, before {@link #gpus} is applied,
     *     as {@code nvidia-smi} showed it while the process ran; GPUs that are not named are not
     *     checked, and with an empty map nothing is checked
     * @return this builder
     * @throws IllegalArgumentException when a size is negative
     */
    public Builder needs(Map<GpuUuid, Long> bytes) {
      bytes.forEach(
          (gpu, size) -> {
            if (size < 0) {
              throw new IllegalArgumentException(
                  "a process cannot hold " + size + " bytes on " + gpu);
            }
          });
      this.needs = Map.copyOf(bytes);
      return this;
    }

    /**
     * Sets the time of the whole operation. The wait for memory and the dump of the fallback image
     * take no longer than this, and leave the process checkpointed. The driver's restore cannot be
     * interrupted: when the deadline passes while it is under way, the caller gets {@link
     * dev.gpuprocess.error.OperationTimedOutException}, the driver goes on, and the process is
     * brought back to running when the restore returns. Other verbs on the process are refused
     * until then. Each restore by the driver has {@link Timeouts#transfer()} as its limit, too; the
     * wait for another verb on the process has {@link Timeouts#call()} alone.
     *
     * @param time {@code ChronoUnit.FOREVER.getDuration()}, the default, for no limit
     * @return this builder
     * @throws IllegalArgumentException unless it is positive
     */
    public Builder deadline(Duration time) {
      this.deadline = Durations.positive("deadline", time);
      return this;
    }

    /**
     * Sets what ends the operation early. The wait for memory and the dump of the fallback image
     * end at once, and leave the process checkpointed. The driver's restore cannot be interrupted:
     * one that is under way has {@link Timeouts#call()} to end, after which the operation goes on
     * as if it had not been cancelled. If the driver has not answered by then, the caller gets
     * {@link dev.gpuprocess.error.OperationCancelledException}, and the process is brought back to
     * running when the restore returns.
     *
     * @param by to be cancelled from another thread; none by default
     * @return this builder
     */
    public Builder cancellation(Cancellation by) {
      this.cancellation = requireNonNull(by, "by");
      return this;
    }

    /**
     * Takes the values as they are now; the builder may be used again.
     *
     * @return the options
     */
    public ResumeOptions build() {
      return new ResumeOptions(copy());
    }
  }
}
