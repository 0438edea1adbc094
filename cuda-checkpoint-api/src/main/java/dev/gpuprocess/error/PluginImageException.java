package dev.gpuprocess.error;

/**
 * The images were made with another CRIU plugin than the restore allows. This library runs CRIU
 * without plugins, but for AMD jobs: with the CUDA plugin the GPU state would be restored twice.
 */
public class PluginImageException extends ImageException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public PluginImageException(String message, Failure failure) {
    super(message, failure, null);
  }
}
