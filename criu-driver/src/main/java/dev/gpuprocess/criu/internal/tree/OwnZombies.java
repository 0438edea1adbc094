package dev.gpuprocess.criu.internal.tree;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.PidDescriptor;
import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.process.ProcessIdentity;
import java.time.Duration;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Zombies that are children of this JVM but were not started by it. As the first process of a
 * container, or as a child subreaper, this JVM becomes the parent of what it has restored, and
 * nobody else can reap those processes. The JDK reaps the processes it has started at once, so one
 * that is still a zombie after a while was not started by the JDK.
 */
public final class OwnZombies {

  private static final Logger LOG = LoggerFactory.getLogger(OwnZombies.class);

  /** The JDK has a thread that waits for each of its children. */
  static final Duration PATIENCE = Duration.ofSeconds(1);

  private static final long PAUSE_NANOS = 1_000_000;

  private OwnZombies() {}

  /** Whether this JVM is the parent of the process. */
  static boolean isOurs(ProcStat stat) {
    return stat.parent() == ProcessHandle.current().pid();
  }

  /**
   * If a pid is held by a zombie child of this JVM, waits until it is free, and reaps the zombie if
   * nobody else has.
   */
  public static void free(int pid) {
    Optional<ProcessIdentity> zombie =
        ProcFs.stat(pid)
            .filter(stat -> stat.isDead() && isOurs(stat))
            .map(stat -> new ProcessIdentity(pid, stat.startTicks()));
    if (zombie.isPresent()) {
      boolean unused =
          Deadline.after(PATIENCE).await(PAUSE_NANOS, () -> Processes.stat(zombie.get()).isEmpty());
      reap(zombie.get());
    }
  }

  /**
   * Reaps exactly this process, if it is a zombie child of this JVM. To be called only after the
   * JDK has had time to reap it.
   */
  public static void reap(ProcessIdentity process) {
    if (Processes.stat(process).filter(stat -> stat.isDead() && isOurs(stat)).isEmpty()) {
      return;
    }
    try {
      LOG.debug("reaped {}: {}", process.pid(), PidDescriptor.reapIfEnded(process.pid()));
    } catch (NativeCallException e) {
      LOG.warn("process {} has ended and cannot be reaped: {}", process.pid(), e.getMessage());
    }
  }
}
