package dev.gpuprocess.error;

import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * This machine lacks what the image needs. With {@link
 * MachineUnfitException.Reason#MACHINE_MISMATCH} nothing was touched and CRIU was not started;
 * {@link #differences()} has everything in which this machine differs from the one that the image
 * was made on. With {@link MachineUnfitException.Reason#CPU_MISMATCH} CRIU found that the CPU
 * differs, and {@link #criu()} has what it logged.
 */
public class MachineMismatchException extends MachineUnfitException implements CriuReport {

  private static final long serialVersionUID = 1L;

  private final transient List<MachineDifference> differences;
  private final transient CriuFailure criu;

  /**
   * Creates the exception for differences that were found before CRIU was started.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param differences all that differs; at least one difference prevents the restore
   */
  public MachineMismatchException(
      String message, Failure failure, List<MachineDifference> differences) {
    super(Reason.MACHINE_MISMATCH, message, failure);
    this.differences = List.copyOf(differences);
    this.criu = CriuFailure.NOT_STARTED;
  }

  /**
   * Creates the exception for a CPU that CRIU refused.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param criu what CRIU answered and logged
   * @param cause what was caught, or null
   */
  public MachineMismatchException(
      String message, Failure failure, CriuFailure criu, @Nullable Throwable cause) {
    super(Reason.CPU_MISMATCH, message, failure, cause);
    this.differences = List.of();
    this.criu = criu;
  }

  /**
   * All that differs.
   *
   * @return first what {@linkplain MachineDifference#prevents() prevents} the restore, then what
   *     only is remarkable; empty when CRIU found that the CPU differs
   */
  public final List<MachineDifference> differences() {
    return differences;
  }

  /**
   * Returns what CRIU answered and logged.
   *
   * @return {@link CriuFailure#NOT_STARTED} unless CRIU found that the CPU differs
   */
  @Override
  public final CriuFailure criu() {
    return criu;
  }
}
