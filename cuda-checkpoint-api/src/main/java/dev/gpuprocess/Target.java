package dev.gpuprocess;

import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.error.ProcessStoppedException;
import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.error.StaleStateException;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.proc.ProcFs;
import dev.gpuprocess.proc.ProcStat;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The process behind a line of state objects. It knows which of them is the current one and lets
 * one verb at a time work on the process.
 */
final class Target {

  private static final Logger LOG = LoggerFactory.getLogger(GpuProcess.class);
  private static final long POLL_NANOS = 1_000_000;

  final GpuCheckpoints checkpoints;
  final ProcessIdentity identity;

  /** What the process held on each GPU when it was last seen there; empty where not known. */
  private volatile Map<GpuUuid, Long> held;

  private final AtomicInteger current = new AtomicInteger();

  /** Who it was when the image was made that it came back from; itself when there was none. */
  private final ProcessIdentity origin;

  Target(GpuCheckpoints checkpoints, ProcessIdentity identity, Map<GpuUuid, Long> held) {
    this(checkpoints, identity, held, identity);
  }

  Target(
      GpuCheckpoints checkpoints,
      ProcessIdentity identity,
      Map<GpuUuid, Long> held,
      ProcessIdentity origin) {
    this.checkpoints = checkpoints;
    this.identity = identity;
    this.held = held;
    this.origin = origin;
  }

  /** Finds the process of a pid. */
  static Target of(GpuCheckpoints checkpoints, long pid, String verb) {
    ProcessIdentity identity =
        ProcessIdentity.of(pid)
            .orElseThrow(
                () ->
                    new NoSuchProcessException(
                        pid <= 0
                            ? pid + " is not a process id: process ids start at 1"
                            : "there is no process " + pid + ": it ended, or never was",
                        Failure.of(verb, pid)));
    // Whoever checkpointed it wrote down what it held.
    Map<GpuUuid, Long> held =
        checkpoints.journal().find(identity).map(JournalEntry::held).orElse(Map.of());
    return new Target(checkpoints, identity, held);
  }

  int pid() {
    return identity.pid();
  }

  /** Tells whether an image is one of this process, or the one that it came back from. */
  boolean isIn(Manifest image) {
    ProcessIdentity dumped = new ProcessIdentity(image.pid(), image.startTicks());
    return dumped.equals(identity) || dumped.equals(origin);
  }

  Map<GpuUuid, Long> held() {
    return held;
  }

  /**
   * Says in the journal what is about to be done, so that it can be mended if we die now. Whoever
   * brings the process back goes on without: what was written before it was locked would do.
   */
  void note(String step, Turn.Kind kind) {
    if (kind == Turn.Kind.BRING_BACK) {
      checkpoints.journal().update(identity, step, held);
    } else {
      checkpoints.journal().write(identity, step, held, null, null);
    }
  }

  /** Says in the journal that an image is being made, and where CRIU's log is meanwhile. */
  void note(String step, Path image, @Nullable Path log) {
    checkpoints.journal().write(identity, step, held, image, log);
  }

  /** Says in the journal what the process has come to; null when that is not known. */
  void noteState(@Nullable ProcessState state) {
    if (state == ProcessState.RUNNING || isKnownToBeGone()) {
      forget();
    } else if (state != null) {
      checkpoints.journal().update(identity, state.name().toLowerCase(Locale.ROOT), held);
    }
  }

  /** It has ended, or has been killed and is being torn down, which a GPU can take a while for. */
  boolean isGone() {
    return !identity.isAlive() || ProcFs.isEnding(pid());
  }

  /** The entry of one that nothing is known of stays: a recovery can look later. */
  private boolean isKnownToBeGone() {
    try {
      return isGone();
    } catch (ProcessUnreadableException e) {
      LOG.warn("whether process {} has ended is not known: {}", pid(), e.getMessage());
      return false;
    }
  }

  /** Nothing is left to mend. */
  void forget() {
    checkpoints.journal().remove(identity);
  }

  void nowHolds(Map<GpuUuid, Long> bytes) {
    held = bytes;
  }

  /** The generation that the next state object of this process will have. */
  int advance() {
    return current.incrementAndGet();
  }

  boolean isCurrent(int generation) {
    return current.get() == generation;
  }

  /**
   * Runs a verb of a state object: alone on this process, on the very process it was, and only if
   * no newer state object took over.
   */
  <T> T exclusively(String name, Turn.Kind kind, int generation, Function<Verb, T> body) {
    Turn turn = Turn.take(identity, name, kind, checkpoints.stateDirectory());
    Verb verb = new Verb(this, name, turn);
    try {
      if (!isCurrent(generation)) {
        throw new StaleStateException(
            "process %d has moved on since this object was made; go on with the newest one, or with GpuProcess.inspect(%d)"
                .formatted(pid(), pid()),
            Failure.of(name, pid()));
      }
      requireReachable(name);
      return body.apply(verb);
    } finally {
      if (!verb.isAbandoned()) {
        turn.end();
      }
    }
  }

  /** Ends this very process; the handle of the JDK checks its start time as well. */
  void end() {
    ProcessHandle.of(pid())
        .filter(handle -> identity.isAlive())
        .ifPresent(ProcessHandle::destroyForcibly);
    long end = System.nanoTime() + checkpoints.timeouts().call().toNanos();
    while (identity.isAlive()) {
      if (System.nanoTime() > end) {
        throw new OperationTimedOutException(
            "process %d does not end: the kernel holds it, look at /proc/%d/stack"
                .formatted(pid(), pid()),
            Failure.of("end", pid()));
      }
      LockSupport.parkNanos(POLL_NANOS);
    }
    forget();
  }

  /** A driver call on a stopped process hangs for ever, and one on a reused pid hits a stranger. */
  void requireReachable(String name) {
    if (!identity.isAlive()) {
      forget();
    }
    ProcStat stat =
        identity
            .stat()
            .orElseThrow(() -> new NoSuchProcessException(goneMessage(), Failure.of(name, pid())));
    if (stat.isDead()) {
      throw new NoSuchProcessException(
          "process %d has ended; its parent %d has not reaped it yet"
              .formatted(pid(), stat.parent()),
          Failure.of(name, pid()));
    }
    if (ProcFs.isFrozen(pid())) {
      throw new ProcessStoppedException(
          "process %d is in a frozen cgroup, and a driver call on it would hang: thaw it and try again"
              .formatted(pid()),
          Failure.of(name, pid()));
    }
    Standstill.of(pid())
        .ifPresent(
            still -> {
              throw new ProcessStoppedException(
                  "process %d %s, and a driver call on it would hang: let it continue (%s) and try again"
                      .formatted(pid(), still.what(), still.cure()),
                  Failure.of(name, pid()));
            });
  }

  private String goneMessage() {
    return ProcessIdentity.of(pid()).isPresent()
        ? "process %d has ended, and its pid belongs to another process now".formatted(pid())
        : "process %d has ended".formatted(pid());
  }
}
