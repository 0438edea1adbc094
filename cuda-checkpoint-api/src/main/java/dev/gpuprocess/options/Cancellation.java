package dev.gpuprocess.options;

import java.util.LinkedHashSet;
import java.util.Set;

/**
 * Ends suspends, resumes, dumps, restores and copies of images early, from another thread. Set in
 * {@link SuspendOptions}, {@link ResumeOptions}, {@link DumpOptions} or {@link RestoreOptions}, it
 * applies to every call made with them, and cannot be undone: a call made after {@link #cancel}
 * ends before it has begun, and touches nothing. Safe for use by several threads.
 *
 * <p>A cancelled dump or restore ends CRIU, finds out the fate of the process tree, and throws
 * {@link dev.gpuprocess.error.OperationCancelledException}. A call that can no longer be stopped,
 * because the tree was dumped or runs again, ends normally. While a listener handles a stage, the
 * call first waits for the listener.
 */
public final class Cancellation {

  private final Set<Runnable> actions = new LinkedHashSet<>();
  private boolean cancelled;

  /** Creates one that is not cancelled. */
  public Cancellation() {}

  /** Cancels all calls that this was given to, now and later. Returns at once. */
  public void cancel() {
    synchronized (actions) {
      cancelled = true;
      actions.forEach(Runnable::run);
      actions.clear();
    }
  }

  /** {@return whether {@link #cancel} was called} */
  public boolean isCancelled() {
    synchronized (actions) {
      return cancelled;
    }
  }

  /**
   * For drivers: registers an action that wakes a waiting thread.
   *
   * @param action run once, on the thread that cancels, or at once on this thread if that has
   *     happened already; must not block
   * @return to be closed when nobody waits any more; the action does not run after that
   */
  public Registration onCancel(Runnable action) {
    synchronized (actions) {
      if (cancelled) {
        action.run();
      } else {
        actions.add(action);
      }
    }
    return () -> {
      synchronized (actions) {
        actions.remove(action);
      }
    };
  }

  /** An action that waits for a cancellation. */
  @FunctionalInterface
  public interface Registration extends AutoCloseable {
    @Override
    void close();
  }
}
