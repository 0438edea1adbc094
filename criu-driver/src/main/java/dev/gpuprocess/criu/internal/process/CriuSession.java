package dev.gpuprocess.criu.internal.process;

import dev.gpuprocess.criu.internal.os.Deadline;
import dev.gpuprocess.criu.internal.os.ExitStatus;
import dev.gpuprocess.criu.internal.process.Conversation.Reply;
import dev.gpuprocess.criu.proto.Rpc.criu_req;
import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.internal.os.NativeCallException;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.process.ProcessIdentity;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A CRIU that serves several requests, as with {@code keep_open}. Closing kills and reaps it. For
 * use by one thread at a time.
 */
public final class CriuSession implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger(CriuSession.class);
  private static final Duration EXIT_GRACE = Duration.ofSeconds(5);

  private final CriuProcess criu;
  private final CallContext context;
  private boolean ended;

  private CriuSession(CriuProcess criu, CallContext context) {
    this.criu = criu;
    this.context = context;
  }

  /**
   * Starts CRIU.
   *
   * @param context what all requests run under together
   */
  public static CriuSession start(CriuCommand command, CallContext context)
      throws NativeCallException {
    return new CriuSession(CriuProcess.start(command, List.of()), context);
  }

  public CriuCommand command() {
    return criu.command();
  }

  /**
   * The descendants of our child: what CRIU has started and, if another command runs CRIU, CRIU
   * itself.
   */
  public List<Integer> descendants() {
    return ProcFs.descendants(criu.pid());
  }

  /** Makes a request; CRIU keeps running if it succeeds. */
  public CriuResult ask(criu_req request) throws NativeCallException {
    Reply reply = new Conversation(criu, context).ask(request);
    ExitStatus exit = reply.good() ? ExitStatus.UNKNOWN : end(reply.givenUp());
    return CriuResult.of(reply, exit, criu, context);
  }

  /** The result for a process that CRIU has started. */
  public CriuResult resultOf(ExitStatus child) {
    return CriuResult.of(new Reply(null, null), child, criu, context);
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

  /**
   * Kills what CRIU has started for us, which would outlive it. Not to be called once CRIU is
   * reaped, as its pid may have been reused.
   */
  private void endChildren() throws NativeCallException {
    List<ProcessIdentity> children = new ArrayList<>();
    try {
      for (int child : descendants()) {
        Optional<ProcessIdentity> process = ProcessIdentity.of(child);
        if (process.isPresent() && descendants().contains(child)) {
          children.add(process.get());
        }
      }
    } catch (ProcessUnreadableException e) {
      LOG.debug("killing the process group of CRIU {}", criu.pid(), e);
      criu.child().killGroup();
      return;
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
