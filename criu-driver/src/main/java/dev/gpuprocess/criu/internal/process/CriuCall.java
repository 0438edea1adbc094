package dev.gpuprocess.criu.internal.process;

import dev.gpuprocess.criu.internal.process.Conversation.Reply;
import dev.gpuprocess.criu.proto.Rpc.criu_req;
import dev.gpuprocess.internal.linux.ExitStatus;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.report.ProcessIdentity;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * One request to a CRIU started for it, from start to exit.
 *
 * @param command the command that starts CRIU
 * @param context the deadline, handlers and cancellation of the request
 * @param inherited descriptors that CRIU inherits, numbered from the one after its socket
 * @param terminal the terminal for a job that CRIU restores; null for none
 */
public record CriuCall(
    CriuCommand command,
    CallContext context,
    List<Integer> inherited,
    @Nullable JobTerminal terminal) {

  /** CRIU exits right after its reply; it has nothing left to do. */
  private static final Duration EXIT_GRACE = Duration.ofSeconds(5);

  private static final Duration HANG_UP_GRACE = Duration.ofSeconds(1);

  /** Prepares a kill of CRIU. */
  public interface BeforeKill {

    /** Does nothing. */
    BeforeKill NONE = new BeforeKill() {};

    /**
     * Called before CRIU is killed, to record state that is visible only while CRIU exists.
     *
     * @param criu its pid
     */
    default void aboutToKill(int criu) {}

    /**
     * Waits for a moment at which killing CRIU harms no other process. CRIU may be stopped
     * (SIGSTOP) when this returns true, and is not when this returns false.
     *
     * @return false if no such moment came; CRIU is not killed then
     */
    default boolean awaitMoment(ProcessIdentity criu) {
      return true;
    }
  }

  /** Returns a request without notifications. */
  public static CriuCall plain(CriuCommand command, Deadline deadline) {
    return new CriuCall(command, CallContext.plain(deadline), List.of(), null);
  }

  /**
   * Makes the request to a new CRIU.
   *
   * @throws NativeCallException if CRIU could not be started
   */
  public CriuResult make(criu_req request) throws NativeCallException {
    try (CriuProcess criu = CriuProcess.start(command, inherited, terminal)) {
      criu.killOnly(context.beforeKill());
      Reply reply = new Conversation(criu, context).ask(request);
      ExitStatus exit = end(criu, reply.givenUp());
      return new CriuResult(
          reply.message(),
          exit,
          reply.givenUp(),
          criu.output(),
          context.deadline().elapsed(),
          criu.criuPid());
    }
  }

  private ExitStatus end(CriuProcess criu, @Nullable GivenUpException givenUp)
      throws NativeCallException {
    if (givenUp == null) {
      Optional<ExitStatus> exit = criu.awaitExit(Deadline.after(EXIT_GRACE));
      if (exit.isPresent()) {
        return exit.get();
      }
    }
    context.beforeKill().aboutToKill(criu.criuPid() == 0 ? criu.pid() : criu.criuPid());
    // A CRIU that waits for our answer takes this for a refusal and cleans up after itself.
    criu.hangUp();
    Optional<ExitStatus> exit = criu.awaitExit(Deadline.after(HANG_UP_GRACE));
    if (exit.isPresent()) {
      return exit.get();
    }
    // Processes that CRIU has started and not yet released are killed with it; released ones are
    // not.
    return criu.kill(
        context.notifications().canStop() ? CriuKill.withTree(criu) : CriuKill.alone(criu));
  }
}
