package dev.gpuprocess.criu.internal.process;

import dev.gpuprocess.criu.internal.os.Deadline;
import dev.gpuprocess.criu.internal.os.Wakeup;

/**
 * What goes along with a request to CRIU, however it is put: how long it may take, who answers what
 * CRIU asks, and who looks after it.
 *
 * @param deadline for all of it
 * @param notifications answers what CRIU asks
 * @param watch looks around while CRIU works
 * @param beforeKill told before CRIU is ended
 * @param wakeup tells when the caller wants it no more
 */
public record CallContext(
    Deadline deadline,
    Conversation.Notifications notifications,
    Conversation.Watch watch,
    CriuCall.BeforeKill beforeKill,
    Wakeup wakeup) {

  /** Of a request without notifications. */
  public static CallContext plain(Deadline deadline) {
    return new CallContext(
        deadline,
        Conversation.Notifications.NONE,
        Conversation.Watch.NONE,
        CriuCall.BeforeKill.NONE,
        Wakeup.NEVER);
  }

  /**
   * Checks that it is of use to go on.
   *
   * @param canStop whether CRIU can still be stopped without harm; if not, a cancellation comes too
   *     late
   * @throws GivenUpException when it is not
   */
  void requireWanted(boolean canStop) throws GivenUpException {
    requireWanted(deadline, canStop);
  }

  /** The same by another deadline, once that of the request counts no more. */
  void requireWanted(Deadline until, boolean canStop) throws GivenUpException {
    if (until.passed()) {
      throw GivenUpException.deadline();
    }
    if (canStop && wakeup.isCancelled()) {
      throw GivenUpException.cancelled();
    }
  }
}
