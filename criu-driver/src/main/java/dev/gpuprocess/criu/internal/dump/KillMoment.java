package dev.gpuprocess.criu.internal.dump;

import dev.gpuprocess.criu.internal.process.CriuCall;
import dev.gpuprocess.criu.internal.tree.InjectedCode;
import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.internal.proc.Signals;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.internal.time.Uninterrupted;
import dev.gpuprocess.process.ProcessIdentity;
import java.time.Duration;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Finds a moment at which a dumping CRIU can be killed and the process that it dumps survives: one
 * at which the process executes no {@link InjectedCode}. CRIU is stopped, looked at, and let go on
 * for a moment if it has to be; so a CRIU that was stopped by somebody else goes on as well, and
 * usually ends by itself.
 *
 * @param root the root of the tree that CRIU dumps
 * @param limit how long to look for such a moment
 */
record KillMoment(int root, Duration limit) implements CriuCall.BeforeKill {

  private static final Logger LOG = LoggerFactory.getLogger(KillMoment.class);

  /** CRIU lets a process execute its code for some milliseconds in all. */
  private static final Duration LIMIT = Duration.ofSeconds(5);

  private static final int LOOKS = 10;
  private static final long PAUSE_NANOS = 1_000_000;

  KillMoment(int root) {
    this(root, LIMIT);
  }

  @Override
  public void aboutToKill(int criu) {
    // There is nothing that can be seen only now.
  }

  @Override
  public boolean awaitMoment(ProcessIdentity criu) {
    Deadline deadline = Deadline.after(limit);
    while (true) {
      if (isMoment(criu)) {
        return true;
      }
      letGoOn(criu);
      if (deadline.passed()) {
        LOG.warn(
            "CRIU {} is not killed, as process {} executes code of CRIU's and would die with it;"
                + " CRIU gives up at its next step",
            criu.pid(),
            root);
        return false;
      }
      Uninterrupted.pause(PAUSE_NANOS);
    }
  }

  private boolean isMoment(ProcessIdentity criu) {
    try {
      boolean ours = stop(criu);
      for (int look = 0; look < LOOKS; look++) {
        if (!criu.isAlive()) {
          return true;
        }
        // What CRIU has begun ends while CRIU is stopped.
        if ((!ours || isStill(criu)) && !InjectedCode.runsIn(root)) {
          return true;
        }
        Uninterrupted.pause(PAUSE_NANOS);
      }
    } catch (NativeCallException | ProcessUnreadableException e) {
      LOG.debug("it cannot be seen what CRIU {} does", criu.pid(), e);
    }
    return false;
  }

  /** False for root's CRIU, which another user cannot stop: that one is only looked at. */
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

  private static void letGoOn(ProcessIdentity criu) {
    try {
      Processes.signal(criu, Signals.SIGCONT);
    } catch (NativeCallException | ProcessUnreadableException e) {
      LOG.debug("CRIU {} stays stopped", criu.pid(), e);
    }
  }
}
