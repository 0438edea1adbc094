package dev.gpuprocess.error;

import dev.gpuprocess.internal.text.Printable;
import java.io.Serializable;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * The root of everything this library throws. The message is one sentence that says what is wrong
 * and what to do; {@link #failure()} is the data behind it. An exception keeps all of its data when
 * it is serialized, also for another JVM, unless a method says otherwise.
 */
public abstract class GpuCheckpointException extends RuntimeException {

  private static final long serialVersionUID = 1L;

  /**
   * Why an operation failed. Each exception type has one reason, or an enum of its own with several
   * for which a caller does the same next: {@code e.reason() == ImageException.Reason.MISSING}.
   */
  public sealed interface Reason extends Serializable
      permits RetryLaterException.Reason,
          InsufficientGpuMemoryException.Reason,
          FixAndRetryException.Reason,
          ImageException.Reason,
          CriuException.Reason,
          ProcessUnfitException.Reason,
          MachineUnfitException.Reason {

    /** {@return the name of the constant, such as {@code MISSING}} */
    String name();
  }

  private final Reason reason;
  private volatile Failure failure;
  private volatile String where = "";
  private volatile boolean isComplete;
  private volatile @Nullable TreeFailure tree;

  /**
   * An error with its data and its cause.
   *
   * @param reason why it is thrown
   * @param message one sentence; what could be mistaken in a terminal or a log is escaped
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  protected GpuCheckpointException(
      Reason reason, String message, Failure failure, @Nullable Throwable cause) {
    // In it may be names from outside.
    super(Printable.of(message), cause);
    this.reason = reason;
    this.failure = failure;
  }

  /**
   * Returns why the operation failed, for programs.
   *
   * @return a constant of the enum of this exception's type or group
   */
  public Reason reason() {
    return reason;
  }

  /**
   * What was tried, on which process, and what came of it.
   *
   * @return the data behind the message
   */
  public final Failure failure() {
    return failure;
  }

  /**
   * Returns what is known about the CRIU that failed.
   *
   * @return its answer and what matters of its log; empty unless CRIU failed, or was not started
   *     because it could only have failed
   */
  public Optional<CriuFailure> criu() {
    return Optional.empty();
  }

  /**
   * Returns where each member was left by a verb on several members.
   *
   * @return empty for a verb on a single process or an image, and when no member was touched
   */
  public final Optional<TreeFailure> tree() {
    return Optional.ofNullable(tree);
  }

  /**
   * Adds where each member was left, also to the message. For the library; only the first counts.
   *
   * @param outcome where they were left
   */
  public final void inTree(TreeFailure outcome) {
    if (tree == null) {
      tree = outcome;
    }
  }

  /**
   * Adds where the verb left the process, also to the message. For the library; only the first
   * counts.
   *
   * @param outcome the data with the states before and after the verb
   * @param words where the process is, or empty where the message says that already
   */
  public final void leftAt(Failure outcome, String words) {
    if (!isComplete) {
      isComplete = true;
      failure = outcome;
      where = words.isEmpty() ? "" : "; " + words;
    }
  }

  /**
   * Returns one sentence that ends with where the verb left the process, and in brackets each of
   * several members.
   */
  @Override
  public String getMessage() {
    TreeFailure told = tree;
    String message = super.getMessage() + where;
    return told == null ? message : message + " (" + told + ")";
  }
}
