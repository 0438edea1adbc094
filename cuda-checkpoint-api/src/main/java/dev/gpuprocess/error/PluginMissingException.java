package dev.gpuprocess.error;

/** A plugin of CRIU that is needed is not on this machine, or may not be loaded. */
public class PluginMissingException extends MachineUnfitException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public PluginMissingException(String message, Failure failure) {
    super(message, failure, null);
  }
}
