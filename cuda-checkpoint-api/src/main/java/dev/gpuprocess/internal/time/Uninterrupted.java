package dev.gpuprocess.internal.time;

/** Waits that an interrupt does not cut short: the thread is interrupted again afterwards. */
public final class Uninterrupted {

  private Uninterrupted() {}

  /** Something that ends by itself when the time is up. */
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
   * @param end when to give up, as of {@link Durations#end}
   * @param wait begun again, with the time that is left, after each interrupt
   */
  public static <T, X extends Exception> T until(long end, Wait<T, X> wait) throws X {
    boolean interrupted = false;
    try {
      while (true) {
        try {
          return wait.await(Durations.left(end));
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
