package dev.gpuprocess.options;

import java.util.LinkedHashSet;
import java.util.Set;

/**
 * Ends dumps and restores from another thread. Given with {@link DumpOptions} or {@link
 * RestoreOptions}, it works for every call made with them, and for good: a call made after {@link
 * #cancel} ends before it has begun.
 *
 * <p>A cancelled call ends CRIU, finds out what became of the process tree, and throws {@link
 * dev.gpuprocess.error.OperationCancelledException}. A call that can no longer be stopped, because
 * the tree was dumped or runs again, ends as if nobody had cancelled it. While a listener is being
 * told of a stage, the call waits for the listener first.
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
   * For drivers: wakes whoever waits.
   *
   * @param action run once, on the thread that cancels, or now when that has happened already; it
   *     must not block
   * @return close it when nobody waits any longer; the action does not run after that
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
