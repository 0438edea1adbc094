package dev.gpuprocess.criu.internal.process;

import dev.gpuprocess.criu.internal.os.Deadline;
import dev.gpuprocess.criu.internal.os.ExitStatus;
import dev.gpuprocess.criu.internal.os.NativeCallException;
import dev.gpuprocess.criu.internal.process.Conversation.Reply;
import dev.gpuprocess.criu.proto.Rpc.criu_req;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.process.ProcessIdentity;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * A CRIU that is asked more than once, as with {@code keep_open}. Closing ends and reaps it. For
 * one thread at a time.
 */
public final class CriuSession implements AutoCloseable {

  private static final Duration EXIT_GRACE = Duration.ofSeconds(5);

  private final CriuProcess criu;
  private final CallContext supervision;
  private boolean ended;

  private CriuSession(CriuProcess criu, CallContext supervision) {
    this.criu = criu;
    this.supervision = supervision;
  }

  /**
   * Starts CRIU.
   *
   * @param supervision what goes along with all requests together
   */
  public static CriuSession start(CriuCommand command, CallContext supervision)
      throws NativeCallException {
    return new CriuSession(CriuProcess.start(command, List.of()), supervision);
  }

  public CriuCommand command() {
    return criu.command();
  }

  /** All that CRIU has started, and what runs CRIU if that is not us. */
  public List<Integer> descendants() {
    return ProcFs.descendants(criu.child());
  }

  /** Asks; CRIU runs on afterwards if the reply is a good one. */
  public CriuResult ask(criu_req request) throws NativeCallException {
    Reply reply = new Conversation(criu, supervision).ask(request);
    ExitStatus exit = reply.good() ? ExitStatus.UNKNOWN : end(reply.givenUp());
    return CriuResult.of(reply, exit, criu, supervision);
  }

  /** How it went with a process that CRIU has started. */
  public CriuResult outcomeOf(ExitStatus child) {
    return CriuResult.of(new Reply(null, null), child, criu, supervision);
  }

  private ExitStatus end(@Nullable GivenUpException givenUp) throws NativeCallException {
    if (ended) {
      return ExitStatus.UNKNOWN;
    }
    ended = true;
    if (givenUp == null) {
      criu.hangUp();
      Optional<ExitStatus> exit = criu.awaitExit(Deadline.after(EXIT_GRACE));
      if (exit.isPresent()) {
        return exit.get();
      }
    }
    endChildren();
    return criu.kill();
  }

  /** What CRIU has started for us would outlive it. Not once it is reaped: its pid may be taken. */
  private void endChildren() throws NativeCallException {
    List<ProcessIdentity> children = new ArrayList<>();
    for (int child : descendants()) {
      Optional<ProcessIdentity> process = ProcessIdentity.of(child);
      if (process.isPresent() && descendants().contains(child)) {
        children.add(process.get());
      }
    }
    CriuKill.end(criu.command(), children);
  }

  @Override
  public void close() throws NativeCallException {
    try (criu) {
      if (!ended) {
        ended = true;
        endChildren();
      }
    }
  }
}
