package dev.gpuprocess.internal.dump;

import dev.gpuprocess.error.Fate;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.internal.proc.LifeSign;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.time.Uninterrupted;
import dev.gpuprocess.report.ProcessIdentity;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * The fate of a process whose dump failed after CRIU was allowed to kill it. The image may be
 * removed only when the process is certainly alive.
 */
enum DumpEnd {
  /** The process is alive, and no CRIU is left that could kill it. */
  LIVES,
  /** The process is gone, or was killed and is being torn down. */
  GONE,
  /** The process is alive and may still be killed, or cannot be inspected. */
  UNKNOWN;

  private static final long PAUSE_NANOS = 1_000_000;

  /** The time for which a process must look alive if CRIU reported nothing about it. */
  private static final Duration MOMENT = Duration.ofMillis(200);

  /**
   * Determines the fate of a process.
   *
   * @param thrown the exception of the CRIU driver. Its fate was determined after CRIU ended, and
   *     is used unless the kernel shows otherwise. It gets the reason why the process cannot be
   *     inspected as a suppressed exception
   * @param patience the wait for a process that a tracer still holds
   */
  static DumpEnd of(ProcessIdentity process, Throwable thrown, Duration patience) {
    try {
      return look(process, thrown, patience);
    } catch (ProcessUnreadableException unknown) {
      thrown.addSuppressed(unknown);
      return UNKNOWN;
    }
  }

  private static DumpEnd look(ProcessIdentity process, Throwable thrown, Duration patience) {
    Fate fate = fate(thrown);
    long begin = System.nanoTime();
    while (true) {
      LifeSign sign = process.isAlive() ? LifeSign.of(process.pid()) : LifeSign.GONE;
      if (sign == LifeSign.GONE || sign == LifeSign.ENDING) {
        return GONE;
      }
      long waited = System.nanoTime() - begin;
      if (sign == LifeSign.FREE
          && (fate == Fate.RUNNING_AGAIN || (fate == null && waited > MOMENT.toNanos()))) {
        return LIVES;
      }
      if ((fate != null && fate != Fate.RUNNING_AGAIN) || waited > Durations.nanos(patience)) {
        return UNKNOWN;
      }
      Uninterrupted.pause(PAUSE_NANOS);
    }
  }

  private static @Nullable Fate fate(Throwable thrown) {
    return thrown instanceof GpuCheckpointException known ? known.failure().fate() : null;
  }
}
