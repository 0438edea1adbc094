package dev.gpuprocess.options;

import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Function;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The future of {@link Cancellation#async}: done when its verb has ended, cancelled or not. */
final class VerbFuture<T> extends CompletableFuture<T> {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private final Cancellation cancellation = new Cancellation();
  private final Function<Cancellation, T> verb;

  /** Set by whichever comes first: the verb begins, or is cancelled before that. */
  private final AtomicBoolean decided = new AtomicBoolean();

  VerbFuture(Function<Cancellation, T> verb) {
    this.verb = verb;
  }

  /** Runs the verb on this thread, unless it was cancelled before. */
  void run() {
    if (isDone() || !decided.compareAndSet(false, true)) {
      return;
    }
    try {
      end(verb.apply(cancellation));
    } catch (Throwable e) {
      if (!completeExceptionally(e)) {
        LOG.warn("a call failed after its future was completed by something else", e);
      }
    }
  }

  private void end(T result) {
    if (cancellation.isCancelled() && result instanceof AutoCloseable left) {
      CancellationException late =
          new CancellationException(
              "cancelled when the call had just ended: " + left + " was closed");
      close(left, late);
      completeExceptionally(late);
    } else if (!complete(result)) {
      LOG.warn("{} was returned after the future of its call was completed", result);
      if (result instanceof AutoCloseable left) {
        close(left, new CancellationException());
      }
    }
  }

  private static void close(AutoCloseable left, CancellationException why) {
    try {
      left.close();
    } catch (Throwable e) {
      LOG.warn("{} was left by a cancelled call, and cannot be closed", left, e);
      why.addSuppressed(e);
    }
  }

  /**
   * Cancels the verb. If it has not begun, this future is cancelled at once; otherwise it is
   * completed when the verb has ended.
   *
   * @return false when this future is done already
   */
  @Override
  public boolean cancel(boolean mayInterruptIfRunning) {
    if (decided.compareAndSet(false, true)) {
      return super.cancel(mayInterruptIfRunning);
    }
    boolean isInTime = !isDone();
    cancellation.cancel();
    return isInTime;
  }
}
