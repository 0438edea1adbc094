package dev.gpuprocess.options;

import static java.util.Objects.requireNonNull;

import dev.gpuprocess.gpu.GpuPair;
import dev.gpuprocess.gpu.GpuUuid;
import dev.gpuprocess.internal.time.Durations;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** How a process goes back to its GPU. Immutable. */
public final class ResumeOptions {

  private static final ResumeOptions DEFAULTS = new Builder().build();

  private final List<GpuPair> pairs;
  private final Duration waitForMemory;
  private final @Nullable Path fallbackImage;
  private final @Nullable Map<GpuUuid, Long> needs;
  private final @Nullable Cancellation cancellation;

  private ResumeOptions(Builder set) {
    this.pairs = set.pairs;
    this.waitForMemory = set.waitForMemory;
    this.fallbackImage = set.fallbackImage;
    this.needs = set.needs;
    this.cancellation = set.cancellation;
  }

  /**
   * Back where it was, now, without an image.
   *
   * @return the defaults
   */
  public static ResumeOptions ofDefaults() {
    return DEFAULTS;
  }

  /**
   * The defaults, to be changed.
   *
   * @return a builder
   */
  public static Builder builder() {
    return new Builder();
  }

  /**
   * These, to be changed.
   *
   * @return a builder
   */
  public Builder toBuilder() {
    Builder builder = new Builder();
    builder.pairs = pairs;
    builder.waitForMemory = waitForMemory;
    builder.fallbackImage = fallbackImage;
    builder.needs = needs;
    builder.cancellation = cancellation;
    return builder;
  }

  /**
   * Where the memory of each GPU goes.
   *
   * @return empty to go back where it was
   */
  public List<GpuPair> pairs() {
    return pairs;
  }

  /**
   * How long to wait until the GPU has room.
   *
   * @return zero does not wait
   */
  public Duration waitForMemory() {
    return waitForMemory;
  }

  /**
   * Where an image is made first.
   *
   * @return empty for none
   */
  public Optional<Path> fallbackImage() {
    return Optional.ofNullable(fallbackImage);
  }

  /**
   * What the process held on each GPU, in bytes.
   *
   * @return empty to find that out
   */
  public Optional<Map<GpuUuid, Long>> needs() {
    return Optional.ofNullable(needs);
  }

  /**
   * What ends the waiting, and the making of the image, early.
   *
   * @return empty for nothing
   */
  public Optional<Cancellation> cancellation() {
    return Optional.ofNullable(cancellation);
  }

  /** Options that differ from the defaults. For one thread. */
  public static final class Builder {

    private List<GpuPair> pairs = List.of();
    private Duration waitForMemory = Duration.ZERO;
    private @Nullable Path fallbackImage;
    private @Nullable Map<GpuUuid, Long> needs;
    private @Nullable Cancellation cancellation;

    private Builder() {}

    /**
     * To other GPUs.
     *
     * @param pairs lists every GPU of the machine; empty, the default, to go back where it was
     * @return this builder
     */
    public Builder pairs(List<GpuPair> pairs) {
      this.pairs = List.copyOf(pairs);
      return this;
    }

    /**
     * Waits until the GPU has room. The waiting ends early when the process ends or is moved by
     * somebody else, when the thread is interrupted, and with {@link #cancellation}.
     *
     * @param time the most to wait; {@code ChronoUnit.FOREVER.getDuration()} for as long as it
     *     takes; zero, the default, does not wait
     * @return this builder
     * @throws IllegalArgumentException when it is negative
     */
    public Builder waitForMemory(Duration time) {
      this.waitForMemory = Durations.notNegative("time to wait for GPU memory", time);
      return this;
    }

    /**
     * Makes an image first, for the case that a program beside this library takes the memory
     * between the look and the restore, which loses the process.
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
     * Tells what the process held on its GPUs, where the library does not know: the restore is
     * refused with {@link dev.gpuprocess.error.UnknownHoldingsException} then unless there is room
     * for all that it can have held. A restore that needs more than was told may run out of GPU
     * memory, and lose the process.
     *
     * @param bytes by the GPU that it was on, before {@link #pairs}, as {@code nvidia-smi} showed
     *     it when the process ran; a GPU that is not named is not looked at, and with an empty map
     *     nothing is checked
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
     * What ends the waiting for memory, and the making of an image, early. The move of the memory
     * itself cannot be stopped.
     *
     * @param by from another thread
     * @return this builder
     */
    public Builder cancellation(Cancellation by) {
      this.cancellation = requireNonNull(by, "by");
      return this;
    }

    /**
     * Makes the options; the builder can be used again.
     *
     * @return an immutable object
     */
    public ResumeOptions build() {
      return new ResumeOptions(this);
    }
  }
}
