package dev.gpuprocess.error;

import java.util.Optional;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;

/**
 * Another verb works on the same process right now. Also what a look at the process answers that
 * the driver keeps waiting because of that: it tells a state only when the checkpoint, restore or
 * lock under way has ended.
 */
public class OperationInProgressException extends RetryLaterException {

  private static final long serialVersionUID = 1L;

  /** No process has it. */
  private static final long NOT_KNOWN = 0;

  private final @Nullable String verb;
  private final long controller;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried, on whom, and what came of it
   * @param cause what was caught, or null
   */
  public OperationInProgressException(String message, Failure failure, @Nullable Throwable cause) {
    super(message, failure, cause);
    this.verb = null;
    this.controller = NOT_KNOWN;
  }

  /**
   * Creates the exception where it is known who is at it.
   *
   * @param message one sentence
   * @param failure what was tried, on whom, and what came of it
   * @param verb what is under way
   * @param controller pid of the JVM that does it; empty when it has none in our pid namespace
   */
  public OperationInProgressException(
      String message, Failure failure, String verb, OptionalLong controller) {
    super(message, failure, null);
    this.verb = verb;
    this.controller = controller.orElse(NOT_KNOWN);
  }

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried, on whom, and what came of it
   */
  public OperationInProgressException(String message, Failure failure) {
    this(message, failure, null);
  }

  /**
   * What is under way.
   *
   * @return the verb, such as {@code suspend}; empty when it is not known
   */
  public Optional<String> verb() {
    return Optional.ofNullable(verb);
  }

  /**
   * Who does it.
   *
   * @return the pid of that JVM, which may be this one; empty when it is not known, or not a
   *     process of our pid namespace
   */
  public OptionalLong controller() {
    return controller == NOT_KNOWN ? OptionalLong.empty() : OptionalLong.of(controller);
  }
}
