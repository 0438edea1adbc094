package dev.gpuprocess.error;

import java.util.Set;
import org.jspecify.annotations.Nullable;

/** CRIU lacks a capability that it needs here. */
public class MissingCapabilityException extends CriuException {

  private static final long serialVersionUID = 1L;

  private final transient Set<String> capabilities;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param criu what CRIU answered and printed
   * @param capabilities the names of those of which it needs one, such as {@code CAP_SYS_ADMIN}
   * @param cause what was caught, or null
   */
  public MissingCapabilityException(
      String message,
      Failure failure,
      CriuFailure criu,
      Set<String> capabilities,
      @Nullable Throwable cause) {
    super(Reason.MISSING_CAPABILITY, message, failure, criu, cause);
    this.capabilities = Set.copyOf(capabilities);
  }

  /** {@return the names of those of which CRIU needs one, such as {@code CAP_SYS_ADMIN}} */
  public final Set<String> capabilities() {
    return capabilities;
  }
}
