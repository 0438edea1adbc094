package dev.gpuprocess.internal.dump;

/**
 * Decides what happens to the process of a snapshot when CRIU has written its files: it is resumed,
 * or it ends as after a dump. Safe for use by several threads.
 */
public final class SnapshotEnd {

  private boolean isDump;
  private boolean isDecided;

  /**
   * Makes the snapshot a dump, after which the process is gone.
   *
   * @return false if its process is being resumed already
   */
  public synchronized boolean makeDump() {
    isDump |= !isDecided;
    return isDump;
  }

  /** Returns whether it was made a dump. */
  public synchronized boolean isDump() {
    return isDump;
  }

  /** Decides now: true if the process ends. */
  synchronized boolean decide() {
    isDecided = true;
    return isDump;
  }
}
