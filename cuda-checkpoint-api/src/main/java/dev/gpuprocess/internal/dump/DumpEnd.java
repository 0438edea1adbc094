package dev.gpuprocess.internal.dump;

import dev.gpuprocess.error.Fate;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.internal.proc.LifeSign;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.time.Uninterrupted;
import dev.gpuprocess.process.ProcessIdentity;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * What became of a process whose dump failed after CRIU was allowed to kill it. The image may be
 * removed only when the process certainly lives on.
 */
enum DumpEnd {
  /** It lives, and no CRIU is left that could kill it. */
  LIVES,
  /** It is gone, or was killed and is being torn down. */
  GONE,
  /** It lives and may still die, or cannot be looked at. */
  UNKNOWN;

  private static final long PAUSE_NANOS = 1_000_000;

  /** How long a process must look alive when CRIU said nothing about it. */
  private static final Duration MOMENT = Duration.ofMillis(200);

  /**
   * Finds out.
   *
   * @param thrown what the CRIU driver ended with; what it says of the process was found out with
   *     CRIU gone, and is believed unless the kernel says otherwise; gets why the process cannot be
   *     looked at
   * @param patience for a process that somebody still holds
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
