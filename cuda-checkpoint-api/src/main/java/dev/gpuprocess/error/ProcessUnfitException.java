package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/**
 * This process cannot be suspended, or cannot be brought back, however often it is tried: give it
 * up.
 */
public class ProcessUnfitException extends GpuCheckpointException {

  private static final long serialVersionUID = 1L;

  /** Why the process cannot be suspended or brought back. */
  public enum Reason implements GpuCheckpointException.Reason {
    /**
     * The process does not exist: it never existed, it has ended, or its pid belongs to another
     * process now.
     */
    NO_SUCH_PROCESS,

    /** The process has no CUDA state. */
    NOT_CUDA,

    /**
     * No process of the tree has a device file of an AMD GPU open or mapped, or one of them uses
     * CUDA as well.
     */
    NOT_AMD,

    /** The process uses something that the driver cannot checkpoint, such as managed memory. */
    UNSUPPORTED_BY_DRIVER,

    /**
     * A CUDA process of a tree is no longer below the root, because its parent ended. It can be
     * suspended and resumed with the process, but CRIU would not dump it.
     */
    MEMBER_OUTSIDE_TREE,

    /**
     * A restored process could not be confined as it was, by MDWE or sealed mappings, and was
     * ended. Its image can be restored again.
     */
    LESS_CONFINED,

    /** The driver answered with an error that has no reason of its own. */
    DRIVER_ERROR,

    /**
     * A restore ran out of GPU memory, and the driver refuses every later restore of the process.
     */
    OUT_OF_GPU_MEMORY
  }

  /**
   * Creates the exception.
   *
   * @param reason why the process cannot be suspended or brought back
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  public ProcessUnfitException(
      Reason reason, String message, Failure failure, @Nullable Throwable cause) {
    super(reason, message, failure, cause);
  }

  /**
   * Creates the exception.
   *
   * @param reason why the process cannot be suspended or brought back
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public ProcessUnfitException(Reason reason, String message, Failure failure) {
    this(reason, message, failure, null);
  }

  /**
   * Returns why the process cannot be suspended or brought back.
   *
   * @return for programs; the message says the same
   */
  @Override
  public final Reason reason() {
    return (Reason) super.reason();
  }
}
