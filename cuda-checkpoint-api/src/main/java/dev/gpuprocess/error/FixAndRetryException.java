package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/**
 * Something has to be fixed first: a directory, an option, a permission or the state of the
 * process, which the message names. Then try again.
 */
public class FixAndRetryException extends GpuCheckpointException {

  private static final long serialVersionUID = 1L;

  /** What has to be fixed. The types of this group have reasons of their own, or one here. */
  public enum Reason implements GpuCheckpointException.Reason {
    /** A program, directory or file of a process to launch does not exist (ENOENT). */
    LAUNCH_MISSING,

    /**
     * A file of a process to launch may not be used, or no namespace may be made (EACCES, EPERM).
     */
    LAUNCH_NOT_PERMITTED,

    /** The directory of a process to launch is not a directory (ENOTDIR). */
    LAUNCH_NOT_A_DIRECTORY,

    /**
     * The command of a process to launch is not a program for this machine (ENOEXEC, ELIBBAD,
     * EISDIR).
     */
    LAUNCH_NOT_A_PROGRAM,

    /**
     * A file for input or output of a process to launch is a directory, a FIFO, a socket or a block
     * device.
     */
    LAUNCH_NOT_A_FILE,

    /**
     * Arguments and environment of a process to launch are longer than the kernel accepts (E2BIG).
     */
    LAUNCH_TOO_LONG,

    /** The process that was starting the program was killed. */
    LAUNCH_KILLED,

    /** A process could not be launched or signalled for another cause, which the message names. */
    LAUNCH_FAILED,

    /** A GPU pair names a GPU that this machine does not have or that the process does not use. */
    UNKNOWN_GPU,

    /** An option is set that this CRIU driver cannot pass on to CRIU. Nothing was touched. */
    UNSUPPORTED_OPTION,

    /**
     * The CUDA driver cannot reach the process although it is alive: permission is missing, or its
     * CUDA state is broken.
     */
    PROCESS_UNREACHABLE,

    /** A child of the process still holds the GPU, so the tree cannot be dumped. */
    CUDA_CHILD,

    /**
     * A dump failed after its image was complete, and the image may be all that is left of the
     * process.
     */
    IMAGE_KEPT,

    /** The state object is out of date, since its process has moved on. */
    STALE_STATE,

    /** The process is in a state in which the operation is not legal. */
    WRONG_STATE,

    /** The process is stopped, traced or frozen, so that a driver call on it would hang. */
    PROCESS_STOPPED,

    /**
     * The machine, or the control group of the process, has too little host memory for its GPU
     * memory, so that the kernel could kill it. Nothing was checkpointed.
     */
    HOST_MEMORY,

    /**
     * The process polls the driver, and its polls cannot be made to wait, so that a checkpoint
     * could kill it. Nothing was checkpointed.
     */
    POLLS,

    /** The state directory cannot be used. */
    STATE_DIRECTORY,

    /**
     * A process that was restored and resumed did not pass the check of its caller. It was ended;
     * the image stays.
     */
    CHECK_FAILED
  }

  /**
   * Creates the exception.
   *
   * @param reason what has to be fixed
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  public FixAndRetryException(
      Reason reason, String message, Failure failure, @Nullable Throwable cause) {
    super(reason, message, failure, cause);
  }

  /**
   * Creates the exception.
   *
   * @param reason what has to be fixed
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public FixAndRetryException(Reason reason, String message, Failure failure) {
    this(reason, message, failure, null);
  }

  /**
   * Creates an exception of a type with reasons of its own.
   *
   * @param reason what has to be fixed
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  protected FixAndRetryException(
      GpuCheckpointException.Reason reason,
      String message,
      Failure failure,
      @Nullable Throwable cause) {
    super(reason, message, failure, cause);
  }
}
