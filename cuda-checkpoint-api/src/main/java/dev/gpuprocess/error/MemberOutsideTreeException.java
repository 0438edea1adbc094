package dev.gpuprocess.error;

/**
 * A CUDA process of a job is no longer in the tree of the job's root, because its parent ended. It
 * can be suspended and resumed with the job, but CRIU would not dump it.
 */
public class MemberOutsideTreeException extends ProcessUnfitException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public MemberOutsideTreeException(String message, Failure failure) {
    super(Reason.MEMBER_OUTSIDE_TREE, message, failure);
  }
}
