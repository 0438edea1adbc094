package dev.gpuprocess.criu.internal.process;

import dev.gpuprocess.criu.internal.os.Deadline;
import dev.gpuprocess.criu.internal.os.ExitStatus;
import dev.gpuprocess.criu.internal.os.NativeCallException;
import dev.gpuprocess.criu.internal.process.Conversation.Reply;
import dev.gpuprocess.criu.proto.Rpc.criu_req;
import dev.gpuprocess.process.ProcessIdentity;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * One request to a CRIU of its own, from its start to its end.
 *
 * @param command what starts CRIU
 * @param supervision what goes along with it
 * @param inherited descriptors that CRIU has open from the number after its socket on
 */
public record CriuCall(CriuCommand command, CallContext supervision, List<Integer> inherited) {

  /** CRIU replies first and ends then; it has nothing left to do. */
  private static final Duration EXIT_GRACE = Duration.ofSeconds(5);

  private static final Duration HANG_UP_GRACE = Duration.ofSeconds(1);

  /** Sees to what only can be seen while CRIU is there. */
  public interface BeforeKill {

    /** Nothing to see to. */
    BeforeKill NONE = criu -> {};

    /**
     * Called before CRIU is killed.
     *
     * @param criu its pid
     */
    void aboutToKill(int criu);
  }

  /** A request without notifications. */
  public static CriuCall plain(CriuCommand command, Deadline deadline) {
    return new CriuCall(command, CallContext.plain(deadline), List.of());
  }

  /**
   * Makes the request.
   *
   * @throws NativeCallException when CRIU could not be started
   */
  public CriuResult make(criu_req request) throws NativeCallException {
    try (CriuProcess criu = CriuProcess.start(command, inherited)) {
      return over(criu, request, true);
    }
  }

  /**
   * Makes the request to a CRIU that runs.
   *
   * @param last false when CRIU is to wait for another one, which it does after a good reply only
   */
  public CriuResult over(CriuProcess criu, criu_req request, boolean last)
      throws NativeCallException {
    Reply reply = new Conversation(criu, supervision).ask(request);
    boolean waits = !last && reply.good();
    ExitStatus exit = waits ? ExitStatus.UNKNOWN : end(criu, reply.givenUp());
    return CriuResult.of(reply, exit, criu, supervision);
  }

  private ExitStatus end(CriuProcess criu, @Nullable GivenUpException givenUp)
      throws NativeCallException {
    if (givenUp == null) {
      Optional<ExitStatus> exit = criu.awaitExit(Deadline.after(EXIT_GRACE));
      if (exit.isPresent()) {
        return exit.get();
      }
    }
    supervision
        .beforeKill()
        .aboutToKill(criu.criu().map(ProcessIdentity::pid).orElse(criu.child()));
    // A CRIU that waits for our answer takes this for a refusal and cleans up after itself.
    criu.hangUp();
    Optional<ExitStatus> exit = criu.awaitExit(Deadline.after(HANG_UP_GRACE));
    if (exit.isPresent()) {
      return exit.get();
    }
    // What CRIU has begun and cannot be let go goes with it; what it has let go does not.
    return criu.kill(
        supervision.notifications().canStop() ? CriuKill.withTree(criu) : CriuKill.alone(criu));
  }
}
