package dev.gpuprocess.internal.call;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.process.ProcessIdentity;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
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
public final class BoundedCall {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  public static final ExecutorService THREADS =
      Executors.newCachedThreadPool(
          body -> {
            Thread thread = new Thread(body, "gpuprocess idle");
            thread.setDaemon(true);
            return thread;
          });

  /** What one process or disk may cost: its calls are all likely to hang for the same reason. */
  public static final int MOST_ABOUT_ONE = 4;

  /** What all together may cost, so that the JVM does not run out of threads. */
  static final int MOST_ABANDONED = 1024;

  /** By what they are about; what has none is not in it. */
  private static final Map<Object, Integer> ABANDONED = new ConcurrentHashMap<>();

  private BoundedCall() {}

  /** How many calls were left behind and have not returned yet, or are being undone. */
  public static int abandoned() {
    return ABANDONED.values().stream().mapToInt(Integer::intValue).sum();
  }

  /**
   * Called before something is begun, never in the middle of it, and never for what brings a
   * process back: that goes on whatever hangs elsewhere.
   *
   * @param about what the calls will be about
   * @param name what would be begun
   * @throws OperationInProgressException when too many abandoned calls hang already, about the same
   *     or at all
   */
  public static void admit(Object about, String name) {
    if (isFull(about)) {
      throw refused(
          "%s calls about %s hang, so %s is not begun: find out what holds it"
              .formatted(ABANDONED.getOrDefault(about, 0), words(about), name),
          about,
          name);
    }
    int all = abandoned();
    if (all >= MOST_ABANDONED) {
      throw refused(
          "%s calls hang on this machine, so %s is not begun: find out what stopped their processes or disks"
              .formatted(all, name),
          about,
          name);
    }
  }

  /** Whether as many calls about it hang as are allowed for one. */
  static boolean isFull(Object about) {
    return ABANDONED.getOrDefault(about, 0) >= MOST_ABOUT_ONE;
  }

  private static OperationInProgressException refused(String why, Object about, String name) {
    return new OperationInProgressException(
        why + " (threads named \"gpuprocess ...\" tell which)",
        Failure.of(name, about instanceof ProcessIdentity process ? process.pid() : 0));
  }

  private static String words(Object about) {
    return about instanceof ProcessIdentity process ? "process " + process.pid() : about.toString();
  }

  /** Told once, on the call's own thread, when an abandoned call ends after all. */
  public interface Late<T> {
    /** Exactly one of the two is not null. */
    void ended(@Nullable T value, @Nullable Throwable failure);
  }

  /**
   * Calls and waits. An interrupt does not shorten the wait, since the driver would go on; the flag
   * stays set.
   *
   * @param about what a call that hangs is counted for
   * @throws TimeoutException when the deadline passed; only then {@code late} is told
   */
  public static <T> T run(
      Object about, String name, Duration deadline, Supplier<T> call, Late<T> late)
      throws TimeoutException {
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
            end(about, answer, value, failure, event, late);
          } finally {
            Thread.currentThread().setName("gpuprocess idle");
          }
        });
    return await(about, answer, Durations.end(deadline), event);
  }

  private static <T> void end(
      Object about,
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
      count(about, -1);
    }
  }

  private static String call() {
    return Thread.currentThread().getName();
  }

  private static void count(Object about, int change) {
    ABANDONED.merge(about, change, (now, more) -> now + more == 0 ? null : now + more);
  }

  private static <T> T await(
      Object about, CompletableFuture<T> answer, long end, AbandonedCallEvent event)
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
          count(about, 1);
          event.begin();
          if (answer.completeExceptionally(e)) {
            throw e;
          }
          count(about, -1);
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

  static RuntimeException rethrow(@Nullable Throwable cause) {
    if (cause instanceof Error error) {
      throw error;
    }
    // Suppliers throw nothing checked.
    return cause instanceof RuntimeException e ? e : new IllegalStateException(cause);
  }
}
