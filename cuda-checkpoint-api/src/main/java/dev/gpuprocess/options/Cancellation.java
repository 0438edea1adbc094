package dev.gpuprocess.options;

import java.util.LinkedHashSet;
import java.util.List;
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

  private final Set<Action> actions = new LinkedHashSet<>();
  private boolean cancelled;

  /** Creates one that is not cancelled. */
  public Cancellation() {}

  /** Cancels all calls that this was given to, now and later. Returns at once. */
  public void cancel() {
    List<Action> due;
    synchronized (actions) {
      cancelled = true;
      due = List.copyOf(actions);
      actions.clear();
    }
    due.forEach(Action::run);
  }

  /** An action that runs once, and not after it was closed. */
  private static final class Action {

    private final Runnable body;
    private boolean isOver;

    Action(Runnable body) {
      this.body = body;
    }

    /** An action that fails must not keep the others from being run. */
    synchronized void run() {
      if (isOver) {
        return;
      }
      isOver = true;
      try {
        body.run();
      } catch (RuntimeException | Error e) {
        LOG.warn("an action on a cancellation failed", e);
      }
    }

    /** Waits for an action that is being run. */
    synchronized void end() {
      isOver = true;
    }
  }

  /**
   * Runs a verb on an executor. The future is done when the verb has ended, cancelled or not: other
   * verbs may be used on the process then.
   *
   * <p>Cancelling the future cancels the verb, and returns at once; {@link
   * CompletableFuture#isDone()} may be false for a while. A verb that has not begun never does, and
   * the future is cancelled at once. A verb that ends early completes the future with its {@link
   * dev.gpuprocess.error.OperationCancelledException}, which has the state of the process. If the
   * cancellation came too late for the verb, a suspended or locked process that it returns is
   * resumed by {@linkplain AutoCloseable#close() closing} it, and the future is completed with a
   * {@link java.util.concurrent.CancellationException}; anything else that it returns, such as an
   * image, completes the future as if it had not been cancelled.
   *
   * <pre>{@code
   * by -> process.suspend(SuspendOptions.builder().cancellation(by).build())
   * }</pre>
   *
   * @param <T> what the verb returns
   * @param executor runs the verb, which blocks one of its threads
   * @param verb passes the cancellation on in its options
   * @return completed by the verb, or with what it throws
   * @throws java.util.concurrent.RejectedExecutionException when the executor does not take the
   *     verb; nothing was touched
   */
  public static <T> CompletableFuture<T> async(Executor executor, Function<Cancellation, T> verb) {
    VerbFuture<T> future = new VerbFuture<>(verb);
    executor.execute(future::run);
    return future;
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
    Action added = new Action(action);
    boolean isLate;
    synchronized (actions) {
      isLate = cancelled || !actions.add(added);
    }
    if (isLate) {
      added.run();
    }
    return () -> {
      synchronized (actions) {
        actions.remove(added);
      }
      added.end();
    };
  }

  /** An action that waits for a cancellation. */
  @FunctionalInterface
  public interface Registration extends AutoCloseable {
    @Override
    void close();
  }
}
