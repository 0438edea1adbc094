package dev.gpuprocess.internal.launch;

import dev.gpuprocess.internal.os.Libc;
import dev.gpuprocess.internal.os.NativeCallException;
import dev.gpuprocess.internal.os.PidDescriptor;
import dev.gpuprocess.internal.os.PidDescriptor.WaitStatus;
import dev.gpuprocess.internal.process.Processes;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.time.Duration;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A job from its start, or from a restore, to the end of its root, which a dump may be. What
 * changes is guarded by the job's monitor.
 */
final class JobLife {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  final ProcessIdentity root;
  private final PidDescriptor held;
  private final boolean survivesExit;
  private volatile @Nullable Guard guard;

  /** Verbs that may end in a dump, under way. */
  int departures;

  /** Whether the root ended because it is in an image now. */
  boolean departed;

  /** Whether a restore is under way that will bring it back. */
  boolean taken;

  /** Whether all of it has ended, and nothing is left to be reaped. */
  boolean over;

  JobLife(ProcessIdentity root, PidDescriptor held, @Nullable Guard guard, boolean survivesExit) {
    this.root = root;
    this.held = held;
    this.guard = guard;
    this.survivesExit = survivesExit;
  }

  /**
   * The life of a process that was restored. Without a guard, which can come later, if need be.
   *
   * @throws NativeCallException when it has ended already, or cannot be held
   */
  static JobLife restored(ProcessIdentity root, boolean survivesExit, Duration limit)
      throws NativeCallException {
    PidDescriptor held = PidDescriptor.open(root.pid());
    if (Processes.stat(root).isEmpty()) {
      held.close(); // another process has its pid
      throw Libc.failure("pidfd_open " + root.pid(), Libc.ESRCH);
    }
    Guard guard = null;
    try {
      guard = Guard.start(root, held, survivesExit, limit);
    } catch (IOException e) {
      LOG.warn("process {} was restored, but is not guarded: {}", root.pid(), e.getMessage());
    }
    return new JobLife(root, held, guard, survivesExit);
  }

  /** Waits until the root has ended, and reaps it; how it ended, where it was a child of ours. */
  Optional<WaitStatus> awaitRoot() throws NativeCallException {
    held.awaitEnd();
    return held.reap();
  }

  /**
   * The guard, to be given orders. One that somebody has killed is replaced.
   *
   * @param rootLives whether the root is not known to have ended; afterwards the thread that waits
   *     for the rest replaces guards
   */
  Optional<Guard> guard(Duration limit, boolean rootLives) throws IOException {
    Guard there = guard;
    if (rootLives && (there == null || !there.isThere())) {
      if (there != null) {
        boolean unused = there.reap();
      }
      there = Guard.start(root, held, survivesExit, limit);
      guard = there;
    }
    return Optional.ofNullable(there);
  }

  /** Waits until all the rest has ended; nothing of this is used afterwards. */
  void awaitRest(Duration limit) throws IOException {
    Guard there = guard;
    if (there != null && departed) {
      there.letGo();
    }
    while (there != null && !there.reap() && !departed) {
      there = Guard.start(root, held, survivesExit, limit);
      guard = there;
    }
    Orphans.reap(root.pid());
    held.close();
  }
}
