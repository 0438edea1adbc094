package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/**
 * This machine cannot do it for any process: use another machine, or install what the message
 * names.
 */
public class MachineUnfitException extends GpuCheckpointException {

  private static final long serialVersionUID = 1L;

  /** What the machine lacks. */
  public enum Reason implements GpuCheckpointException.Reason {
    /** There is no usable libcuda on this machine. */
    NO_CUDA_DRIVER,

    /** The CUDA driver lacks a function that this library needs. */
    DRIVER_TOO_OLD,

    /** There is no CRIU on this machine that can be started. */
    NO_CRIU,

    /** The CRIU of this machine does not work on its kernel. */
    CRIU_TOO_OLD,

    /** A plugin of CRIU that is needed is not on this machine, or may not be loaded. */
    PLUGIN_MISSING,

    /**
     * A class of this library could not be loaded: its files are incomplete or cannot be opened.
     * Such a class may stay unusable in its JVM.
     */
    CLASS_LOADING,

    /** This machine lacks what the image needs. */
    MACHINE_MISMATCH,

    /**
     * The CPU of this machine lacks features of the CPU that the image was made on, or lays out its
     * registers differently.
     */
    CPU_MISMATCH
  }

  /**
   * Creates the exception.
   *
   * @param reason what the machine lacks
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  public MachineUnfitException(
      Reason reason, String message, Failure failure, @Nullable Throwable cause) {
    super(reason, message, failure, cause);
  }

  /**
   * Creates the exception.
   *
   * @param reason what the machine lacks
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public MachineUnfitException(Reason reason, String message, Failure failure) {
    this(reason, message, failure, null);
  }

  /**
   * Returns what the machine lacks.
   *
   * @return for programs; the message names what to install
   */
  @Override
  public final Reason reason() {
    return (Reason) super.reason();
  }
}
