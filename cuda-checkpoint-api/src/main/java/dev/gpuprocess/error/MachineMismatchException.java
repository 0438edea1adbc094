package dev.gpuprocess.error;

import java.util.List;

/**
 * This machine lacks what the image needs: {@link #differences()} has everything in which it
 * differs from the one that the image was made on. CRIU was not started and nothing was touched.
 */
public class MachineMismatchException extends MachineUnfitException {

  private static final long serialVersionUID = 1L;

  private final transient List<MachineDifference> differences;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param differences all that differs, at least one of which prevents the restore
   */
  public MachineMismatchException(
      String message, Failure failure, List<MachineDifference> differences) {
    super(message, failure, null);
    this.differences = List.copyOf(differences);
  }

  /**
   * All that differs.
   *
   * @return first what {@linkplain MachineDifference#prevents() prevents} the restore, then what
   *     only is remarkable
   */
  public final List<MachineDifference> differences() {
    return differences;
  }
}
