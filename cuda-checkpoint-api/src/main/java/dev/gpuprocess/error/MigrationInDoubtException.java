package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/**
 * The two hosts lost each other at the moment at which a process belongs to one or to the other,
 * and this one cannot know to which. Nothing is lost, but somebody has to look: the message says
 * what is here and what to look for there. The object of the process is stale then, so that closing
 * it does not resume it; {@link dev.gpuprocess.GpuProcess#inspect} finds the process again.
 */
public class MigrationInDoubtException extends FixAndRetryException {

  private static final long serialVersionUID = 1L;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param cause what was caught, or null
   */
  public MigrationInDoubtException(String message, Failure failure, @Nullable Throwable cause) {
    super(message, failure, cause);
  }
}
