package dev.gpuprocess.error;

import java.time.Instant;
import java.util.Optional;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;

/**
 * Another verb works on the same process right now. Also thrown when reading the state of a process
 * takes too long because of that: the driver answers only when the checkpoint, restore or lock
 * under way has ended.
 */
public class OperationInProgressException extends RetryLaterException {

  private static final long serialVersionUID = 1L;

  /** A pid that no process has. */
  private static final long NOT_KNOWN = 0;

  private final @Nullable String verb;
  private final @Nullable Instant since;
  private final long controller;

  /**
   * Creates the exception when it is known who works on the process.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param verb what is under way
   * @param controller pid of the JVM that runs it; empty when it has no pid in our pid namespace
   * @param since when that verb began
   */
  public OperationInProgressException(
      String message, Failure failure, String verb, OptionalLong controller, Instant since) {
    super(Reason.OPERATION_IN_PROGRESS, message, failure, null);
    this.verb = verb;
    this.since = since;
    this.controller = controller.orElse(NOT_KNOWN);
  }

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   */
  public OperationInProgressException(String message, Failure failure) {
    super(Reason.OPERATION_IN_PROGRESS, message, failure, null);
    this.verb = null;
    this.since = null;
    this.controller = NOT_KNOWN;
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
   * When the verb that is under way began.
   *
   * @return to the millisecond, by the clock of the JVM that runs it; empty when it is not known
   */
  public Optional<Instant> since() {
    return Optional.ofNullable(since);
  }

  /**
   * Which JVM works on the process.
   *
   * @return its pid, which may be that of this JVM; empty when it is not known, or is in another
   *     pid namespace
   */
  public OptionalLong controller() {
    return controller == NOT_KNOWN ? OptionalLong.empty() : OptionalLong.of(controller);
  }
}
