package dev.gpuprocess.criu;

import dev.gpuprocess.criu.Conversation.Reply;
import dev.gpuprocess.criu.proto.Rpc.criu_req;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.process.ProcessIdentity;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * A CRIU that is asked more than once, as with {@code keep_open}. Closing ends and reaps it. For
 * one thread at a time.
 */
final class CriuSession implements AutoCloseable {

  private static final Duration EXIT_GRACE = Duration.ofSeconds(5);

  private final CriuProcess criu;
  private final Supervision supervision;
  private boolean ended;

  private CriuSession(CriuProcess criu, Supervision supervision) {
    this.criu = criu;
    this.supervision = supervision;
  }

  /**
   * Starts CRIU.
   *
   * @param supervision what goes along with all requests together
   */
  static CriuSession start(Path program, Supervision supervision) throws NativeCallException {
    return new CriuSession(CriuProcess.start(program, List.of()), supervision);
  }

  int pid() {
    return criu.pid();
  }

  /** Asks; CRIU runs on afterwards if the reply is a good one. */
  Outcome ask(criu_req request) throws NativeCallException {
    Reply reply = new Conversation(criu, supervision).ask(request);
    ExitStatus exit = reply.good() ? ExitStatus.UNKNOWN : end(reply.givenUp());
    return Outcome.of(reply, exit, criu, supervision);
  }

  /** How it went with a process that CRIU has started. */
  Outcome outcomeOf(ExitStatus child) {
    return Outcome.of(new Reply(null, null), child, criu, supervision);
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
    for (int child : ProcFs.descendants(criu.pid())) {
      Optional<ProcessIdentity> process = ProcessIdentity.of(child);
      if (process.isPresent() && ProcFs.descendants(criu.pid()).contains(child)) {
        Posix.kill(process.get());
      }
    }
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
