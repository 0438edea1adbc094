package dev.gpuprocess.criu.internal.dump;

import dev.gpuprocess.criu.internal.process.CriuCall;
import dev.gpuprocess.criu.internal.tree.InjectedCode;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.proc.Signals;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.internal.time.Uninterrupted;
import dev.gpuprocess.report.ProcessIdentity;
import java.time.Duration;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Finds a moment at which a dumping CRIU can be killed and the process that it dumps survives: one
 * at which the process executes no {@link InjectedCode}. CRIU is stopped, the process is inspected,
 * and CRIU continues for a moment if the process executes such code. A CRIU that another process
 * stopped continues as well, and usually exits.
 *
 * @param root the root of the tree that CRIU dumps
 * @param limit the longest search for such a moment
 */
record KillDecision(int root, Duration limit) implements CriuCall.BeforeKill {

  private static final Logger LOG = LoggerFactory.getLogger(KillDecision.class);

  /** A process executes CRIU's code for some milliseconds during a dump. */
  private static final Duration LIMIT = Duration.ofSeconds(5);

  private static final int LOOKS = 10;
  private static final long PAUSE_NANOS = 1_000_000;

  KillDecision(int root) {
    this(root, LIMIT);
  }

  @Override
  public boolean awaitMoment(ProcessIdentity criu) {
    boolean found = Deadline.after(limit).await(PAUSE_NANOS, () -> stoppedAtMoment(criu));
    if (!found) {
      LOG.warn(
          "CRIU {} is not killed, because process {} executes CRIU's code and would die too;"
              + " CRIU gives up at its next step",
          criu.pid(),
          root);
    }
    return found;
  }

  /** Stops CRIU and inspects the process; CRIU continues if this returns false. */
  private boolean stoppedAtMoment(ProcessIdentity criu) {
    try {
      boolean ours = stop(criu);
      for (int look = 0; look < LOOKS; look++) {
        if (!criu.isAlive()) {
          return true;
        }
        // A call that CRIU has begun ends while CRIU is stopped.
        if ((!ours || isStill(criu)) && !InjectedCode.runsIn(root)) {
          return true;
        }
        Uninterrupted.pause(PAUSE_NANOS);
      }
    } catch (NativeCallException | ProcessUnreadableException e) {
      LOG.debug("CRIU {} cannot be inspected", criu.pid(), e);
    }
    resume(criu);
    return false;
  }

  /** Stops CRIU; returns false for root's CRIU, which another user cannot stop. */
  private static boolean stop(ProcessIdentity criu) throws NativeCallException {
    try {
      Processes.signal(criu, Signals.SIGSTOP);
      return true;
    } catch (NativeCallException e) {
      if (e.isNotPermitted()) {
        return false;
      }
      throw e;
    }
  }

  /** A CRIU that waits for a disk does nothing else before it stops. */
  private static boolean isStill(ProcessIdentity criu) {
    return Processes.stat(criu).filter(stat -> stat.isStopped() || stat.state() == 'D').isPresent();
  }

  private static void resume(ProcessIdentity criu) {
    try {
      Processes.signal(criu, Signals.SIGCONT);
    } catch (NativeCallException | ProcessUnreadableException e) {
      LOG.debug("CRIU {} stays stopped", criu.pid(), e);
    }
  }
}
