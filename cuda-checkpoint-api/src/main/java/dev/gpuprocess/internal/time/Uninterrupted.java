package dev.gpuprocess.internal.time;

/** Waits that an interrupt does not cut short: the thread is interrupted again afterwards. */
public final class Uninterrupted {

  private Uninterrupted() {}

  /** A wait that returns at the end of the given time. */
  public interface Wait<T, X extends Exception> {
    T await(long nanos) throws InterruptedException, X;
  }

  /** Waits that long. */
  public static void pause(long nanos) {
    if (Polling.park(nanos)) {
      Thread.currentThread().interrupt();
    }
  }

  /**
   * Waits.
   *
   * @param deadline the end of the time
   * @param wait called again with the time left after each interrupt
   */
  public static <T, X extends Exception> T until(Deadline deadline, Wait<T, X> wait) throws X {
    boolean interrupted = false;
    try {
      while (true) {
        try {
          return wait.await(deadline.nanos());
        } catch (InterruptedException e) {
          interrupted = true;
        }
      }
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }
}
