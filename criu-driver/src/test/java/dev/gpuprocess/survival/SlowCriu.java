package dev.gpuprocess.survival;

import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.report.ProcessIdentity;
import java.time.Duration;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.ObjIntConsumer;

/**
 * Slows a dump down, as on a busy machine or with much memory: CRIU is stopped now and then, while
 * the process executes injected code, and when CRIU may kill the tree. CRIU continues when the
 * deadline may have passed.
 */
record SlowCriu(Random random) implements ObjIntConsumer<String> {

  /** From this stage on the process is stopped, and executes injected code. */
  private static final String SEIZED = WatchedCriu.STAGE + "queryExternalFiles";

  /** One of so many. */
  private static final int SLOW_ENDS_OF = 3;

  private static final int SLOW_MIDDLES_OF = 10;
  private static final long LATEST_END_NANOS = 3_000_000;
  private static final long LATEST_MIDDLE_NANOS = 15_000_000;
  private static final int LONGEST_MILLIS = 6000;
  private static final Duration PATIENCE = Duration.ofSeconds(30);

  @Override
  public void accept(String moment, int pid) {
    if (moment.equals(WatchedCriu.MAY_KILL)) {
      slow(pid, SLOW_ENDS_OF, LATEST_END_NANOS);
    } else if (moment.equals(SEIZED)) {
      slow(pid, SLOW_MIDDLES_OF, LATEST_MIDDLE_NANOS);
    }
  }

  private void slow(int pid, int of, long latestNanos) {
    if (random.nextInt(of) > 0) {
      return;
    }
    long nanosBefore = (long) (random.nextDouble() * latestNanos);
    int millis = 1 + random.nextInt(LONGEST_MILLIS);
    try {
      Signals.criuOf(pid).ifPresent(criu -> stop(criu, nanosBefore, millis));
    } catch (ProcessUnreadableException e) {
      // No descriptors to look with: this one is not slow.
      return;
    }
  }

  private static void stop(ProcessIdentity criu, long nanosBefore, int millis) {
    Thread thread =
        new Thread(
            () -> {
              LockSupport.parkNanos(nanosBefore);
              send(criu, Signals.STOP);
              LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(millis));
              send(criu, Signals.CONTINUE);
            },
            "slow CRIU");
    thread.setDaemon(true);
    thread.start();
  }

  /** Repeats the check while this JVM has no free descriptor. */
  private static void send(ProcessIdentity criu, int signal) {
    Waiting.until(
        PATIENCE,
        () -> {
          try {
            Signals.send(criu, signal);
            return true;
          } catch (ProcessUnreadableException e) {
            return false;
          }
        });
  }
}
