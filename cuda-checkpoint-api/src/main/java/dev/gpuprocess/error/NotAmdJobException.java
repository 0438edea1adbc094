package dev.gpuprocess.error;

/**
 * No process of the tree has an AMD GPU's device file open or mapped, or one of them uses CUDA as
 * well.
 */
public class NotAmdJobException extends ProcessUnfitException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public NotAmdJobException(String message, Failure failure) {
    super(Reason.NOT_AMD, message, failure);
  }
}
