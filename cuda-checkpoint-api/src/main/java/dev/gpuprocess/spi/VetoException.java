package dev.gpuprocess.spi;

/**
 * A listener's refusal. Only the methods that declare it can stop a dump or a restore: there CRIU
 * waits for the answer and obeys it. An unchecked exception thrown by such a method has the same
 * effect.
 */
public class VetoException extends Exception {

  private static final long serialVersionUID = 1L;

  /**
   * A refusal.
   *
   * @param message why, for the middle of a sentence
   */
  public VetoException(String message) {
    super(message);
  }

  /**
   * A refusal because of something that went wrong.
   *
   * @param message why, for the middle of a sentence
   * @param cause what went wrong
   */
  public VetoException(String message, Throwable cause) {
    super(message, cause);
  }
}
