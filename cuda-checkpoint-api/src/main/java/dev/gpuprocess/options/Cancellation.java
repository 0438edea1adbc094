package dev.gpuprocess.options;

import java.util.LinkedHashSet;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.function.Function;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

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

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

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

  /**
   * Runs a verb on an executor. Cancelling the future cancels the verb, which then ends as its
   * documentation says, in the background: until it has ended, other verbs on the process are
   * refused. If the cancellation came too late for the verb, the state object that it returns is
   * closed, which resumes a suspended process.
   *
   * <pre>{@code
   * by -> process.suspend(SuspendOptions.builder().cancellation(by).build())
   * }</pre>
   *
   * @param <T> what the verb returns
   * @param executor runs the verb, which blocks one of its threads
   * @param verb passes the cancellation on in its options
   * @return completed by the verb, or with what it throws
   */
  public static <T> CompletableFuture<T> async(Executor executor, Function<Cancellation, T> verb) {
    Cancellation cancellation = new Cancellation();
    CompletableFuture<T> future = new CompletableFuture<>();
    CompletableFuture<T> unused =
        future.whenComplete(
            (result, thrown) -> {
              if (future.isCancelled()) {
                cancellation.cancel();
              }
            });
    executor.execute(
        () -> {
          if (!future.isDone()) {
            try {
              T result = verb.apply(cancellation);
              if (!future.complete(result) && result instanceof AutoCloseable left) {
                close(left);
              }
            } catch (Throwable e) {
              future.completeExceptionally(e);
            }
          }
        });
    return future;
  }

  private static void close(AutoCloseable left) {
    try {
      left.close();
    } catch (Throwable e) {
      LOG.warn("{} was left by a cancelled call, and cannot be closed", left, e);
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
   * @return to be closed when the wait is over; the action does not run after that
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
