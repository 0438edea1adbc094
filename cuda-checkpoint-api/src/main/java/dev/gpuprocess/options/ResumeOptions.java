package dev.gpuprocess.options;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.gpu.GpuPair;
import dev.gpuprocess.gpu.GpuUuid;
import dev.gpuprocess.internal.time.Durations;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * How a process goes back to its GPU. Immutable; each {@code with} method gives a changed copy.
 *
 * @param pairs where the memory of each GPU goes; empty to go back where it was
 * @param waitForMemory how long to wait until the GPU has room, however long; zero does not wait
 * @param insurance where an image is made first, for the case that a program beside this library
 *     takes the memory between the look and the restore; empty for none
 * @param needs what the process held on each GPU, in bytes; empty to find that out
 * @param cancellation what ends the waiting, and the making of the image, early; empty for nothing
 */
public record ResumeOptions(
    List<GpuPair> pairs,
    Duration waitForMemory,
    Optional<Path> insurance,
    Optional<Map<GpuUuid, Long>> needs,
    Optional<Cancellation> cancellation) {

  /**
   * Checks the values.
   *
   * @throws IllegalArgumentException when the time to wait is negative, or a size
   */
  public ResumeOptions {
    pairs = List.copyOf(pairs);
    Durations.notNegative("time to wait for GPU memory", waitForMemory);
    needs = needs.map(Map::copyOf);
    for (Map.Entry<GpuUuid, Long> need : needs.orElse(Map.of()).entrySet()) {
      if (need.getValue() < 0) {
        throw new IllegalArgumentException(
            "a process cannot hold " + need.getValue() + " bytes on " + need.getKey());
      }
    }
  }

  /**
   * Back where it was, now, without an image.
   *
   * @return the defaults
   */
  public static ResumeOptions ofDefaults() {
    return new ResumeOptions(
        List.of(), Duration.ZERO, Optional.empty(), Optional.empty(), Optional.empty());
  }

  /**
   * To other GPUs.
   *
   * @param gpuPairs lists every GPU of the machine; empty for none
   * @return a copy
   */
  public ResumeOptions withPairs(List<GpuPair> gpuPairs) {
    return new ResumeOptions(gpuPairs, waitForMemory, insurance, needs, cancellation);
  }

  /**
   * Waits until the GPU has room. The waiting ends early when the process ends or is moved by
   * somebody else, when the thread is interrupted, and with {@link #withCancellation}.
   *
   * @param time the most to wait; {@code ChronoUnit.FOREVER.getDuration()} for as long as it takes
   * @return a copy
   * @throws IllegalArgumentException when it is negative
   */
  public ResumeOptions withWaitForMemory(Duration time) {
    return new ResumeOptions(pairs, time, insurance, needs, cancellation);
  }

  /**
   * Makes an image first.
   *
   * @param directory as for {@link CheckpointedProcess#dump(Path)}; it stays there afterwards
   * @return a copy
   */
  public ResumeOptions withInsurance(Path directory) {
    return new ResumeOptions(pairs, waitForMemory, Optional.of(directory), needs, cancellation);
  }

  /**
   * Tells what the process held on its GPUs, where the library does not know: the restore is
   * refused with {@link dev.gpuprocess.error.UnknownHoldingsException} then unless there is room
   * for all that it can have held. A restore that needs more than was told may run out of GPU
   * memory, and lose the process.
   *
   * @param bytes by the GPU that it was on, before {@link #withPairs}, as {@code nvidia-smi} showed
   *     it when the process ran; a GPU that is not named is not looked at, and with an empty map
   *     nothing is checked
   * @return a copy
   * @throws IllegalArgumentException when a size is negative
   */
  public ResumeOptions withNeeds(Map<GpuUuid, Long> bytes) {
    return new ResumeOptions(pairs, waitForMemory, insurance, Optional.of(bytes), cancellation);
  }

  /**
   * What ends the waiting for memory, and the making of an image, early. The move of the memory
   * itself cannot be stopped.
   *
   * @param by from another thread
   * @return a copy
   */
  public ResumeOptions withCancellation(Cancellation by) {
    return new ResumeOptions(pairs, waitForMemory, insurance, needs, Optional.of(by));
  }
}
