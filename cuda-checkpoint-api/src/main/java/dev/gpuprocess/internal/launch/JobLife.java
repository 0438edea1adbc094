package dev.gpuprocess.internal.launch;

import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.PidDescriptor;
import dev.gpuprocess.internal.linux.PidDescriptor.WaitStatus;
import dev.gpuprocess.internal.process.Processes;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.time.Duration;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A process from its start, or from a restore, to the end of its root, which a dump may be. What
 * changes is guarded by the process's monitor.
 */
final class JobLife {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** Between two attempts to start a guard. */
  private static final Duration NEXT_ATTEMPT = Duration.ofSeconds(1);

  final ProcessIdentity root;
  private final PidDescriptor held;
  private final boolean survivesExit;
  private final Journal journal;
  private volatile @Nullable Guard guard;

  /** Verbs that may end in a dump, under way. */
  int departures;

  /** Whether the root ended because it is in an image now. */
  boolean departed;

  /** Whether a restore is under way that will bring it back. */
  boolean taken;

  /** Whether all of it has ended, and nothing is left to be reaped. */
  boolean over;

  JobLife(
      ProcessIdentity root,
      PidDescriptor held,
      @Nullable Guard guard,
      boolean survivesExit,
      Journal journal) {
    this.root = root;
    this.held = held;
    this.guard = guard;
    this.survivesExit = survivesExit;
    this.journal = journal;
  }

  /**
   * The life of a process that was restored. Without a guard, which can come later, if need be.
   *
   * @throws NativeCallException when it has ended already, or cannot be held
   */
  static JobLife restored(
      ProcessIdentity root, boolean survivesExit, Journal journal, Duration limit)
      throws NativeCallException {
    PidDescriptor held = PidDescriptor.open(root.pid());
    if (Processes.stat(root).isEmpty()) {
      held.close(); // another process has its pid
      throw Libc.failure("pidfd_open " + root.pid(), Libc.ESRCH);
    }
    JobLife life = new JobLife(root, held, null, survivesExit, journal);
    if (!survivesExit) {
      journal.writeLaunch(root);
    }
    life.guardAgain(limit);
    return life;
  }

  /**
   * Waits until the root has ended, and reaps it. A guard that is killed meanwhile is replaced at
   * once.
   *
   * @param limit how long a guard may take to begin
   * @return how it ended, where it was a child of ours
   */
  Optional<WaitStatus> awaitRoot(Duration limit) throws NativeCallException {
    while (!held.awaitEnd(Duration.ZERO)) {
      Guard there = guard;
      if (there != null) {
        there.awaitEndOr(held);
      }
      if (held.awaitEnd(there == null ? NEXT_ATTEMPT : Duration.ZERO)) {
        break;
      }
      if (there != null) {
        boolean unused = there.reap();
        LOG.warn("the guard of process {} was killed, and is replaced", root.pid());
      }
      guardAgain(limit);
    }
    return held.reap();
  }

  private void guardAgain(Duration limit) {
    guard = null;
    try {
      guard = startGuard(limit);
    } catch (IOException e) {
      LOG.warn("process {} is not guarded: {}", root.pid(), e.getMessage());
    }
  }

  private Guard startGuard(Duration limit) throws IOException {
    return Guard.start(root, held, survivesExit, journal.launchFile(root), limit);
  }

  /** The guard, to be given orders; empty where one has to be started first. */
  Optional<Guard> guard() {
    return Optional.ofNullable(guard);
  }

  /** Waits until all the rest has ended; nothing of this is used afterwards. */
  void awaitRest(Duration limit) throws IOException {
    Guard there = guard;
    if (there != null && departed) {
      there.letGo();
    }
    while (there != null && !there.reap() && !departed) {
      there = startGuard(limit);
      guard = there;
    }
    journal.removeLaunch(journal.launchFile(root));
    Orphans.reap(root.pid());
    held.close();
  }
}
