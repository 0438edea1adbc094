package dev.gpuprocess.error;

import java.util.List;
import java.util.Optional;
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

    /**
     * This machine lacks what the image needs. Nothing was touched, and CRIU was not started;
     * {@link #differences()} lists it.
     */
    MACHINE_MISMATCH,

    /**
     * The CPU of this machine lacks features of the CPU that the image was made on, or lays out its
     * registers differently; {@link #criu()} has what CRIU logged.
     */
    CPU_MISMATCH,

    /**
     * The {@code /proc} of this JVM hides files of the kernel (mount option {@code subset=pid}).
     */
    PROC_HIDDEN
  }

  @SuppressWarnings("serial") // an immutable copy, which is serializable
  private final List<MachineDifference> differences;

  private final @Nullable CriuFailure criu;

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
    this(reason, message, failure, List.of(), null, cause);
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

  private MachineUnfitException(
      Reason reason,
      String message,
      Failure failure,
      List<MachineDifference> differences,
      @Nullable CriuFailure criu,
      @Nullable Throwable cause) {
    super(reason, message, failure, cause);
    this.differences = List.copyOf(differences);
    this.criu = criu;
  }

  /**
   * Creates the exception with reason {@link Reason#MACHINE_MISMATCH}.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param differences all that differs; at least one difference prevents the restore
   * @return the exception
   */
  public static MachineUnfitException machineMismatch(
      String message, Failure failure, List<MachineDifference> differences) {
    return new MachineUnfitException(
        Reason.MACHINE_MISMATCH, message, failure, differences, null, null);
  }

  /**
   * Creates the exception with reason {@link Reason#CPU_MISMATCH}.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param criu what CRIU answered and logged
   * @return the exception
   */
  public static MachineUnfitException cpuMismatch(
      String message, Failure failure, CriuFailure criu) {
    return new MachineUnfitException(Reason.CPU_MISMATCH, message, failure, List.of(), criu, null);
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

  /**
   * Returns all in which this machine differs from the one that the image was made on.
   *
   * @return first what {@linkplain MachineDifference#prevents() prevents} the restore, then what
   *     only is remarkable; empty unless the reason is {@link Reason#MACHINE_MISMATCH}
   */
  public final List<MachineDifference> differences() {
    return differences;
  }

  /**
   * Returns what CRIU answered and logged.
   *
   * @return empty unless the reason is {@link Reason#CPU_MISMATCH}
   */
  @Override
  public final Optional<CriuFailure> criu() {
    return Optional.ofNullable(criu);
  }
}
