package dev.gpuprocess;

import dev.gpuprocess.process.ProcessIdentity;
import org.jspecify.annotations.Nullable;

/**
 * What {@link GpuCheckpoints#recover()} found of one process, and did.
 *
 * @param process which process
 * @param outcome what was done
 * @param suspended the process, when it waits to be resumed; else null
 */
public record Recovered(
    ProcessIdentity process, Outcome outcome, @Nullable CheckpointedProcess suspended) {

  /** What was done. */
  public enum Outcome {
    /** It was locked and is unlocked. */
    UNLOCKED,
    /** It is checkpointed; {@link Recovered#suspended()} resumes it. */
    SUSPENDED,
    /** It runs; nothing was left to do. */
    RUNNING,
    /** It has ended; whether an image of it exists tells the image's directory. */
    GONE,
    /** CRIU had restored it by half; that half was ended. The image is still there. */
    HALF_RESTORED_ENDED,
    /**
     * The driver calls it FAILED. {@link GpuProcess#inspect} gives it as a {@link FailedProcess},
     * which can only be ended.
     */
    FAILED,
    /** A live controller is at it; it was not touched. */
    IN_USE,
    /** It is stopped or does not answer; it was not touched, and the next recovery finds it. */
    UNREACHABLE
  }
}
