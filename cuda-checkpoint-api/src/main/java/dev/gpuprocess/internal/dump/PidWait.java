package dev.gpuprocess.internal.dump;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.PidTakenException;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.internal.proc.LifeSign;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.time.Uninterrupted;
import java.time.Duration;
import java.util.Optional;

/**
 * Waits until the pid of an image is free. Briefly for a zombie, which its parent may be about to
 * reap; longer for a zombie of init, which in some containers reaps only every other second;
 * longest for the dumped process itself while the kernel tears it down. A zombie of this JVM is
 * left to the CRIU driver, which reaps it.
 */
final class PidWait {

  private static final Duration REAP_LIMIT = Duration.ofSeconds(2);
  private static final Duration INIT_REAP_LIMIT = Duration.ofSeconds(10);
  private static final Duration TEARDOWN_LIMIT = Duration.ofSeconds(60);
  private static final long POLL_NANOS = 1_000_000;

  private final Manifest manifest;

  PidWait(Manifest manifest) {
    this.manifest = manifest;
  }

  void requireFree() {
    int pid = manifest.pid();
    long begin = System.nanoTime();
    while (true) {
      Optional<ProcStat> holder = ProcFs.stat(pid);
      if (holder.isEmpty() || isZombieOfOurs(holder.get())) {
        return;
      }
      if (System.nanoTime() - begin > Durations.nanos(limit(holder.get()))) {
        throw new PidTakenException(message(holder.get()), Failure.of("restore", pid));
      }
      Uninterrupted.pause(POLL_NANOS);
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

  private static boolean isZombieOfOurs(ProcStat stat) {
    return stat.isDead() && stat.parent() == ProcessHandle.current().pid();
  }

  private String message(ProcStat stat) {
    if (isDying(stat)) {
      return "process %s was killed and the kernel is still tearing it down: try again when it is gone"
          .formatted(stat.pid());
    }
    if (!stat.isDead() && isItself(stat)) {
      return "process %s (%s) is there: it is the process of this image, which lives on or was restored already; go on with it, or end it first to go back to the image"
          .formatted(stat.pid(), stat.name());
    }
    return stat.isDead()
        ? "pid %s is still held by a zombie (%s) that its parent %s has not reaped; the image can be restored once it is%s"
            .formatted(
                stat.pid(),
                stat.name(),
                stat.parent(),
                stat.parent() == 1
                    ? ": run the container with an init that reaps, such as docker run --init or tini"
                    : "")
        : "pid %s belongs to another process now (%s): end it, or restore in a pid namespace of its own"
            .formatted(stat.pid(), stat.name());
  }

  /**
   * Whether it is the dumped process, or was restored from its image: a restore gives a new start
   * time.
   */
  private boolean isItself(ProcStat stat) {
    return stat.startTicks() == manifest.startTicks()
        || (!manifest.commandLine().isEmpty()
            && manifest.commandLine().equals(ProcFs.commandLine(stat.pid())));
  }
}
