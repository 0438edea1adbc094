package dev.gpuprocess.criu.internal.process;

import dev.gpuprocess.criu.internal.linux.Wakeup;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.Fate;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.options.Cancellation;
import java.time.Duration;
import java.util.Optional;

/**
 * The context of a request to CRIU: its deadline, the handler of its notifications, the watch over
 * CRIU, and its cancellation.
 *
 * @param deadline for the whole request
 * @param notifications answers CRIU's notifications
 * @param watch called periodically while CRIU works
 * @param beforeKill called before CRIU is killed
 * @param wakeup readable when the caller has cancelled
 */
public record CallContext(
    Deadline deadline,
    Conversation.Notifications notifications,
    Conversation.Watch watch,
    CriuCall.BeforeKill beforeKill,
    Wakeup wakeup) {

  /** Returns the context of a request without notifications. */
  public static CallContext plain(Deadline deadline) {
    return new CallContext(
        deadline,
        Conversation.Notifications.NONE,
        Conversation.Watch.NONE,
        CriuCall.BeforeKill.NONE,
        Wakeup.NEVER);
  }

  /**
   * Checks that a request was not cancelled before it was made.
   *
   * @param subject the request in words, such as {@code dump of process 7}
   * @param fate of a process that was not touched
   * @throws OperationCancelledException when it was; CRIU was not started
   */
  public static void requireNotCancelled(
      Optional<Cancellation> cancellation, String operation, String subject, int pid, Fate fate) {
    if (cancellation.map(Cancellation::isCancelled).orElse(false)) {
      throw new OperationCancelledException(
          subject + " was cancelled before it began: CRIU was not started, and nothing was touched",
          new Failure(operation, pid, null, null, Duration.ZERO, null, fate));
    }
  }
}
