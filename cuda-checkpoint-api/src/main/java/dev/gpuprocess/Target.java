package dev.gpuprocess;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.error.ProcessStoppedException;
import dev.gpuprocess.error.StaleStateException;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.internal.Durations;
import dev.gpuprocess.proc.ProcFs;
import dev.gpuprocess.proc.ProcStat;
import java.nio.file.Path;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * The process behind a line of state objects. It knows which of them is the current one and lets
 * one verb at a time work on the process.
 */
final class Target {

  private static final long POLL_NANOS = 1_000_000;

  final GpuCheckpoints checkpoints;
  final ProcessIdentity identity;

  /** What the process held on each GPU when it was last seen there. */
  private volatile Holdings held;

  private final AtomicInteger current = new AtomicInteger();

  /** Who it was when the image was made that it came back from; itself when there was none. */
  private final ProcessIdentity origin;

  Target(GpuCheckpoints checkpoints, ProcessIdentity identity, Holdings held) {
    this(checkpoints, identity, held, identity);
  }

  Target(
      GpuCheckpoints checkpoints,
      ProcessIdentity identity,
      Holdings held,
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
    Holdings held =
        checkpoints.journal().find(identity).map(JournalEntry::held).orElse(Holdings.UNKNOWN);
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

  Holdings held() {
    return held;
  }

  /** Takes over what the one wrote down who checkpointed it last, maybe another controller. */
  private void readHoldings() {
    checkpoints.journal().find(identity).ifPresent(entry -> held = entry.held());
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
    if (state == ProcessState.RUNNING || isGone()) {
      forget();
    } else if (state != null) {
      checkpoints.journal().update(identity, state.name().toLowerCase(Locale.ROOT), held);
    }
  }

  /** It has ended, or has been killed and is being torn down, which a GPU can take a while for. */
  boolean isGone() {
    return !identity.isAlive() || ProcFs.isEnding(pid());
  }

  /** Nothing is left to mend. */
  void forget() {
    checkpoints.journal().remove(identity);
  }

  void nowHolds(Holdings seen) {
    held = seen;
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
      readHoldings();
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
    long end = Durations.end(checkpoints.timeouts().call());
    while (identity.isAlive()) {
      if (Durations.left(end) < 0) {
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
    if (stat.isStopped()) {
      throw new ProcessStoppedException(
          "process %d is %s, and a driver call on it would hang: let it continue (%s) and try again"
              .formatted(
                  pid(),
                  stat.state() == 't' ? "being traced" : "stopped",
                  stat.state() == 't' ? "detach the debugger" : "kill -CONT " + pid()),
          Failure.of(name, pid()));
    }
  }

  private String goneMessage() {
    return ProcessIdentity.of(pid()).isPresent()
        ? "process %d has ended, and its pid belongs to another process now".formatted(pid())
        : "process %d has ended".formatted(pid());
  }
}
