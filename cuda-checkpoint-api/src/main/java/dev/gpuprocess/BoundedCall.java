package dev.gpuprocess;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.internal.Durations;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Runs a native call on a thread of its own, where it can be left behind: a driver call on a
 * stopped process never returns and cannot be interrupted.
 *
 * <p>The threads are daemons, so an abandoned call does not keep the JVM alive; the process it was
 * about is then what {@link GpuProcess#inspect} finds.
 */
final class BoundedCall {

  private static final Logger LOG = LoggerFactory.getLogger(GpuProcess.class);

  private static final ExecutorService THREADS =
      Executors.newCachedThreadPool(
          body -> {
            Thread thread = new Thread(body, "gpuprocess idle");
            thread.setDaemon(true);
            return thread;
          });

  /**
   * Calls that hang longer than anyone waits are a sickness of the machine, not a load to grow
   * with.
   */
  private static final int MOST_ABANDONED = 64;

  private static final AtomicInteger ABANDONED = new AtomicInteger();

  private BoundedCall() {}

  /** How many calls were left behind and have not returned yet, or are being undone. */
  static int abandoned() {
    return ABANDONED.get();
  }

  /** Told once, on the call's own thread, when an abandoned call ends after all. */
  interface Late<T> {
    /** Exactly one of the two is not null. */
    void ended(@Nullable T value, @Nullable Throwable failure);
  }

  /**
   * Calls and waits. An interrupt does not shorten the wait, since the driver would go on; the flag
   * stays set.
   *
   * @throws TimeoutException when the deadline passed; only then {@code late} is told
   * @throws OperationInProgressException when too many abandoned calls hang already
   */
  static <T> T run(String name, Duration deadline, Supplier<T> call, Late<T> late)
      throws TimeoutException {
    if (ABANDONED.get() >= MOST_ABANDONED) {
      throw new OperationInProgressException(
          "%d calls hang on this machine, so %s is not started: find out what stopped their processes or disks (threads named \"gpuprocess ...\" tell which)"
              .formatted(MOST_ABANDONED, name),
          Failure.of(name, 0));
    }
    CompletableFuture<T> answer = new CompletableFuture<>();
    AbandonedCallEvent event = new AbandonedCallEvent(name);
    THREADS.execute(
        () -> {
          Thread.currentThread().setName("gpuprocess " + name);
          T value = null;
          Throwable failure = null;
          try {
            value = call.get();
          } catch (Throwable e) {
            failure = e;
          }
          try {
            end(answer, value, failure, event, late);
          } finally {
            Thread.currentThread().setName("gpuprocess idle");
          }
        });
    return await(answer, Durations.end(deadline), event);
  }

  private static <T> void end(
      CompletableFuture<T> answer,
      @Nullable T value,
      @Nullable Throwable failure,
      AbandonedCallEvent event,
      Late<T> late) {
    if (failure == null ? answer.complete(value) : answer.completeExceptionally(failure)) {
      return;
    }
    event.commit();
    try {
      late.ended(value, failure);
    } catch (RuntimeException | Error e) {
      LOG.warn("{}: what was to be undone when it came back late was not", call(), e);
    } finally {
      // Only now: an undo can hang as the call did, and holds on to what the call had.
      ABANDONED.decrementAndGet();
    }
  }

  private static String call() {
    return Thread.currentThread().getName();
  }

  private static <T> T await(CompletableFuture<T> answer, long end, AbandonedCallEvent event)
      throws TimeoutException {
    boolean interrupted = false;
    try {
      while (true) {
        try {
          return answer.get(Durations.left(end), TimeUnit.NANOSECONDS);
        } catch (InterruptedException e) {
          interrupted = true;
        } catch (TimeoutException e) {
          // Whoever completes the answer first decides; the call may have ended just now.
          ABANDONED.incrementAndGet();
          event.begin();
          if (answer.completeExceptionally(e)) {
            throw e;
          }
          ABANDONED.decrementAndGet();
        } catch (ExecutionException e) {
          throw rethrow(e.getCause());
        }
      }
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  private static RuntimeException rethrow(@Nullable Throwable cause) {
    if (cause instanceof Error error) {
      throw error;
    }
    // Suppliers throw nothing checked.
    return cause instanceof RuntimeException e ? e : new IllegalStateException(cause);
  }
}
