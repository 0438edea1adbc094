package dev.gpuprocess;

import dev.gpuprocess.cuda.GpuPair;
import dev.gpuprocess.proc.Printable;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;

/**
 * How a process goes back to its GPU. Immutable; each {@code with} method gives a changed copy.
 *
 * @param pairs where the memory of each GPU goes; empty to go back where it was
 * @param waitForMemory how long to wait until the GPU has room; zero does not wait
 * @param insurance where an image is made first, for the case that somebody takes the memory
 *     between the look and the restore; empty for none
 */
public record ResumeOptions(List<GpuPair> pairs, Duration waitForMemory, Optional<Path> insurance) {

  /**
   * Checks the values.
   *
   * @throws IllegalArgumentException when the time to wait is negative
   */
  public ResumeOptions {
    pairs = List.copyOf(pairs);
    if (waitForMemory.isNegative()) {
      throw new IllegalArgumentException("cannot wait " + Printable.of(waitForMemory) + " for memory");
    }
  }

  /**
   * Back where it was, now, without an image.
   *
   * @return the defaults
   */
  public static ResumeOptions ofDefaults() {
    return new ResumeOptions(List.of(), Duration.ZERO, Optional.empty());
  }

  /**
   * To other GPUs.
   *
   * @param gpuPairs lists every GPU of the machine; empty for none
   * @return a copy
   */
  public ResumeOptions withPairs(List<GpuPair> gpuPairs) {
    return new ResumeOptions(gpuPairs, waitForMemory, insurance);
  }

  /**
   * Waits until the GPU has room.
   *
   * @param time the most to wait
   * @return a copy
   */
  public ResumeOptions withWaitForMemory(Duration time) {
    return new ResumeOptions(pairs, time, insurance);
  }

  /**
   * Makes an image first.
   *
   * @param directory as for {@link CheckpointedProcess#dump(Path)}; it stays there afterwards
   * @return a copy
   */
  public ResumeOptions withInsurance(Path directory) {
    return new ResumeOptions(pairs, waitForMemory, Optional.of(directory));
  }
}
