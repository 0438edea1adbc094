package dev.gpuprocess.internal.restore;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.PidTakenException;
import dev.gpuprocess.internal.call.Stop;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.manifest.ManifestData;
import dev.gpuprocess.internal.proc.LifeSign;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.options.RestoreOptions;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ThreadLocalRandom;

/**
 * The pid that a process has in its image and gets again: its locks, and the wait until the pid is
 * free. A restore of an isolated process takes any free pid, so it has a lock of its own.
 */
final class RestoredPid {

  /** A start time that no process has: the lock is for any process with this pid. */
  private static final long NOT_STARTED = 0;

  /** Larger than every pid: {@code PID_MAX_LIMIT} is 2^22. */
  private static final int NO_PIDS = 400_000_000;

  /** For a zombie whose parent is about to reap it. */
  private static final Duration REAP_LIMIT = Duration.ofSeconds(2);

  /** For a zombie of init, which in some containers reaps only every other second. */
  private static final Duration INIT_REAP_LIMIT = Duration.ofSeconds(10);

  /** For the dumped process itself, while the kernel tears it down. */
  private static final Duration TEARDOWN_LIMIT = Duration.ofSeconds(60);

  private static final Duration POLL = Duration.ofMillis(1);

  private final EngineContext context;
  private final ManifestData manifest;
  private final boolean isIsolated;
  private final int number;

  RestoredPid(EngineContext context, ManifestData manifest, boolean isIsolated) {
    this.context = context;
    this.manifest = manifest;
    this.isIsolated = isIsolated;
    this.number =
        isIsolated ? NO_PIDS + ThreadLocalRandom.current().nextInt(NO_PIDS) : manifest.pid();
  }

  /** Returns the pid. For an isolated process this is a placeholder, larger than every pid. */
  int number() {
    return number;
  }

  /** Takes the locks of the root and of all members, in the order in which verbs take them. */
  List<ProcessLock> lock() {
    if (isIsolated) {
      return List.of(lock(number));
    }
    Set<Integer> pids = new TreeSet<>(Set.of(manifest.pid()));
    manifest.cudaProcesses().forEach(each -> pids.add(each.pid()));
    List<ProcessLock> taken = new ArrayList<>();
    try {
      pids.forEach(pid -> taken.add(lock(pid)));
      return taken;
    } catch (RuntimeException | Error e) {
      taken.forEach(ProcessLock::release);
      throw e;
    }
  }

  private ProcessLock lock(int pid) {
    return ProcessLock.take(
        new ProcessKey(ProcessKey.self().namespace(), pid, NOT_STARTED),
        pid,
        "restore",
        ProcessLock.Kind.MOVE,
        context.state(),
        context.timeouts().call());
  }

  /**
   * Waits until the pid is free. The CRIU driver reaps a zombie of this JVM.
   *
   * @param options the deadline and the cancellation of the restore
   * @throws PidTakenException when the pid stays in use
   * @throws dev.gpuprocess.error.OperationTimedOutException at the deadline of the restore
   * @throws dev.gpuprocess.error.OperationCancelledException when the restore was cancelled
   */
  void awaitFree(Path image, RestoreOptions options) {
    if (isIsolated) {
      return;
    }
    try (Stop stop = new Stop(options.deadline())) {
      options.cancellation().ifPresent(by -> stop.when(by, Stop.Reason.CANCELLED));
      awaitFree(image, stop);
    }
  }

  private void awaitFree(Path image, Stop stop) {
    long begin = System.nanoTime();
    while (true) {
      Optional<ProcStat> holder = ProcFs.stat(manifest.pid());
      if (holder.isEmpty() || isOwnZombie(holder.get())) {
        return;
      }
      if (System.nanoTime() - begin > Durations.nanos(limit(holder.get()))) {
        throw new PidTakenException(message(holder.get()), Failure.of("restore", manifest.pid()));
      }
      if (stop.reason().isPresent()) {
        throw stop.exception(
            "restore",
            "image " + image,
            " while it waited for pid %s: %s; the image stays"
                .formatted(manifest.pid(), message(holder.get())),
            Failure.of("restore", manifest.pid()));
      }
      stop.pause(POLL);
    }
  }

  private Duration limit(ProcStat holder) {
    if (holder.isDead()) {
      return holder.parent() == 1 ? INIT_REAP_LIMIT : REAP_LIMIT;
    }
    return isDying(holder) ? TEARDOWN_LIMIT : Duration.ZERO;
  }

  private boolean isDying(ProcStat holder) {
    return holder.startTicks() == manifest.startTicks()
        && LifeSign.of(holder.pid()) == LifeSign.ENDING;
  }

  private static boolean isOwnZombie(ProcStat stat) {
    return stat.isDead() && stat.parent() == ProcessHandle.current().pid();
  }

  private String message(ProcStat stat) {
    if (isDying(stat)) {
      return "process %s was killed and the kernel is still tearing it down: try again later"
          .formatted(stat.pid());
    }
    if (stat.isDead()) {
      return "pid %s is still held by a zombie (%s) that its parent %s has not reaped: restore the image when it is reaped%s"
          .formatted(
              stat.pid(),
              stat.name(),
              stat.parent(),
              stat.parent() == 1
                  ? "; run the container with an init that reaps, such as docker run --init or tini"
                  : "");
    }
    return (isOfImage(stat)
            ? "pid %s (%s) is in use by the process of this image, which is still running or already restored: continue with it, or end it before restoring"
            : "pid %s belongs to another process now (%s): end it, or restore in a pid namespace of its own")
        .formatted(stat.pid(), stat.name());
  }

  /** Compares the command line too, since a restored process has another start time. */
  private boolean isOfImage(ProcStat stat) {
    return stat.startTicks() == manifest.startTicks()
        || (!manifest.commandLine().isEmpty()
            && manifest.commandLine().equals(ProcFs.commandLine(stat.pid())));
  }
}
