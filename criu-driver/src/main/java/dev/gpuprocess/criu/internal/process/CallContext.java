package dev.gpuprocess.criu.internal.process;

import dev.gpuprocess.criu.internal.linux.Wakeup;
import dev.gpuprocess.internal.time.Deadline;

/**
 * What a request to CRIU runs under: its deadline, the handler of its notifications, what watches
 * CRIU meanwhile, and its cancellation.
 *
 * @param deadline for the whole request
 * @param notifications answers CRIU's notifications
 * @param watch called from time to time while CRIU works
 * @param beforeKill called before CRIU is killed
 * @param wakeup tells when the caller has cancelled
 */
public record CallContext(
    Deadline deadline,
    Conversation.Notifications notifications,
    Conversation.Watch watch,
    CriuCall.BeforeKill beforeKill,
    Wakeup wakeup) {

  /** The context of a request without notifications. */
  public static CallContext plain(Deadline deadline) {
    return new CallContext(
        deadline,
        Conversation.Notifications.NONE,
        Conversation.Watch.NONE,
        CriuCall.BeforeKill.NONE,
        Wakeup.NEVER);
  }

  /**
   * Checks that it is still worth going on.
   *
   * @param canStop whether CRIU can still be stopped without harm; if not, a cancellation is too
   *     late
   * @throws GivenUpException if the deadline has passed, or the request was cancelled in time
   */
  void requireWanted(boolean canStop) throws GivenUpException {
    requireWanted(deadline, canStop);
  }

  /** Checks the same against another deadline, once that of the request no longer applies. */
  void requireWanted(Deadline until, boolean canStop) throws GivenUpException {
    if (until.passed()) {
      throw GivenUpException.deadline();
    }
    if (canStop && wakeup.isCancelled()) {
      throw GivenUpException.cancelled();
    }
  }
}
