package dev.gpuprocess.survival;

import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.process.ProcessIdentity;
import java.time.Duration;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.ObjIntConsumer;

/**
 * Makes the end of a dumped tree take long, as it does where much memory goes with it: when CRIU
 * may kill the tree it is stopped now and then, before it has killed or in between, and goes on
 * when the deadline may have passed.
 */
record SlowEnd(Random random) implements ObjIntConsumer<String> {

  /** One of so many. */
  private static final int SLOW_OF = 3;

  private static final long LATEST_NANOS = 3_000_000;
  private static final int LONGEST_MILLIS = 6000;
  private static final Duration PATIENCE = Duration.ofSeconds(30);

  @Override
  public void accept(String moment, int pid) {
    if (moment.equals(WatchedCriu.MAY_KILL) && random.nextInt(SLOW_OF) == 0) {
      long nanosBefore = (long) (random.nextDouble() * LATEST_NANOS);
      int millis = 1 + random.nextInt(LONGEST_MILLIS);
      try {
        Signals.criuOf(pid).ifPresent(criu -> stop(criu, nanosBefore, millis));
      } catch (ProcessUnreadableException e) {
        // No descriptors to look with: this end is not slow.
        return;
      }
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
            "slow end");
    thread.setDaemon(true);
    thread.start();
  }

  /** Tries again while there are no descriptors to look at it with. */
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
