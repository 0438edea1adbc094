package dev.gpuprocess.internal.launch;

import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.internal.linux.ExitStatus;
import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.PidDescriptor;
import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.internal.time.Uninterrupted;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The time of a launched process from its start, or from a restore, until its root exits, which may
 * be because of a dump. Its state is guarded by the monitor of the {@link LaunchedRoot}.
 */
final class Lifetime {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** The time between two attempts to start a guard. */
  private static final Duration NEXT_ATTEMPT = Duration.ofSeconds(1);

  /** The time that a killed process and its session may take to exit. */
  static final Duration KILL_LIMIT = Duration.ofSeconds(60);

  /** The state of the root. */
  enum State {
    /** It is running, suspended, or has exited and the thread that waits for it has not seen it. */
    ALIVE,
    /** It is in an image, and its process has exited or will exit. */
    DUMPED,
    /** It is in an image, and a restore is under way. */
    RESTORING,
    /** It has exited, and not because of a dump. */
    ENDED
  }

  final ProcessIdentity root;
  State state = State.ALIVE;

  /** The number of verbs under way that may end in a dump. */
  int dumps;

  /** Whether all processes of the session have exited, and the guard and the orphans are reaped. */
  boolean isReaped;

  private final PidDescriptor held;
  private final boolean survivesExit;
  private final Journal journal;
  private volatile @Nullable Guard guard;

  Lifetime(
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
   * Begins the lifetime of a process that is being restored, with its guard.
   *
   * @throws IOException when the process has exited already, or cannot be guarded
   * @throws OperationTimedOutException when its guard does not begin in time
   */
  static Lifetime restored(
      ProcessIdentity root, boolean survivesExit, Journal journal, Duration limit)
      throws IOException {
    PidDescriptor held = PidDescriptor.open(root.pid());
    Lifetime lifetime = new Lifetime(root, held, null, survivesExit, journal);
    try {
      if (Processes.stat(root).isEmpty()) {
        throw Libc.failure("pidfd_open " + root.pid(), Libc.ESRCH); // another process has its pid
      }
      if (!survivesExit) {
        journal.writeLaunch(root);
      }
      lifetime.guard = lifetime.startGuard(limit);
      return lifetime;
    } catch (IOException | RuntimeException e) {
      journal.remove(journal.launchFile(root));
      held.close();
      throw e;
    }
  }

  /** Ends the lifetime of a process whose restore has failed, and which has exited. */
  void discard() throws IOException {
    Guard there = guard;
    if (there != null) {
      boolean unused = there.kill();
      unused = there.awaitEnd(KILL_LIMIT);
    }
    journal.remove(journal.launchFile(root));
    Optional<ExitStatus> unusedStatus = held.reap();
    held.close();
  }

  /** Returns whether the root is in an image. */
  boolean isInImage() {
    return state == State.DUMPED || state == State.RESTORING;
  }

  /**
   * Waits until the root has exited, and reaps it. Replaces a guard that is killed.
   *
   * @param limit the time limit for the start of a guard
   * @return how it exited, if it was a child of this JVM
   */
  Optional<ExitStatus> awaitRoot(Duration limit) throws NativeCallException {
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
      replaceGuard(limit);
    }
    return held.reap();
  }

  private void replaceGuard(Duration limit) {
    guard = null;
    try {
      guard = startGuard(limit);
    } catch (IOException | RuntimeException e) {
      LOG.warn("process {} is not guarded: {}", root.pid(), e.getMessage());
    }
  }

  private Guard startGuard(Duration limit) throws IOException {
    Path entry = survivesExit ? journal.exitFile(root) : journal.launchFile(root);
    return Guard.start(root, held, survivesExit, entry, limit);
  }

  /** Returns the guard; empty until it is started. */
  Optional<Guard> guard() {
    return Optional.ofNullable(guard);
  }

  /**
   * Waits until all processes of the session have exited. This object is not used afterwards.
   *
   * @param inImage whether they exit because of a dump, so that no guard is needed
   */
  void awaitRest(boolean inImage, Duration limit) throws IOException {
    Guard there = guard;
    if (there != null && inImage) {
      there.detach();
    }
    try {
      while (there != null && !there.reap() && !inImage) {
        replaceGuard(limit);
        for (there = guard; there == null; there = guard) {
          Uninterrupted.pause(NEXT_ATTEMPT.toNanos());
          replaceGuard(limit);
        }
      }
      // Otherwise a recovery finds by it what is left of the session.
      journal.remove(journal.launchFile(root));
    } finally {
      Orphans.reap(root.pid());
      held.close();
    }
  }
}
