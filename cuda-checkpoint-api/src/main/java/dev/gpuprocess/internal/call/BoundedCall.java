package dev.gpuprocess.internal.call;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.time.Uninterrupted;
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
 * Runs a native call on a thread of its own that can be abandoned: a driver call on a stopped
 * process never returns and cannot be interrupted. Safe for use by several threads.
 *
 * <p>The threads are daemons, so an abandoned call does not keep the JVM alive.
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

  /**
   * The most calls about one process or disk that may hang: they probably all hang for the same
   * reason.
   */
  public static final int MAX_ABANDONED_ABOUT_ONE = 4;

  /** The most calls that may hang altogether, so that the JVM does not run out of threads. */
  static final int MAX_ABANDONED = 1024;

  /** Numbers of abandoned calls by subject; none of them is 0. */
  private static final Map<Object, Integer> ABANDONED = new ConcurrentHashMap<>();

  private BoundedCall() {}

  /** How many abandoned calls have not returned yet, or are being undone. */
  public static int abandoned() {
    return ABANDONED.values().stream().mapToInt(Integer::intValue).sum();
  }

  /**
   * Refuses to begin an operation when too many calls hang. Not to be called in the middle of an
   * operation, nor for one that brings a process back.
   *
   * @param about what the calls will be about
   * @param name the operation that would begin
   * @throws OperationInProgressException when too many abandoned calls hang already, about the same
   *     subject or altogether
   */
  public static void requireCapacity(Object about, String name) {
    if (isFull(about)) {
      throw refused(
          "%s calls about %s hang, so %s is not started: find out what blocks it"
              .formatted(ABANDONED.getOrDefault(about, 0), words(about), name),
          about,
          name);
    }
    int all = abandoned();
    if (all >= MAX_ABANDONED) {
      throw refused(
          "%s calls of this JVM hang, so %s is not started: find out what stopped their processes or disks"
              .formatted(all, name),
          about,
          name);
    }
  }

  /** Whether as many calls about it hang as are allowed for one. */
  static boolean isFull(Object about) {
    return ABANDONED.getOrDefault(about, 0) >= MAX_ABANDONED_ABOUT_ONE;
  }

  /** Whether a call about it was abandoned and has not returned. */
  public static boolean hangs(Object about) {
    return ABANDONED.containsKey(about);
  }

  private static OperationInProgressException refused(String why, Object about, String name) {
    return new OperationInProgressException(
        why + " (threads named \"gpuprocess ...\" tell which)",
        Failure.of(name, about instanceof ProcessIdentity process ? process.pid() : 0));
  }

  private static String words(Object about) {
    return about instanceof ProcessIdentity process ? "process " + process.pid() : about.toString();
  }

  /** Called once, on the call's own thread, when an abandoned call returns after all. */
  public interface LateReturn<T> {
    /** Exactly one of the two is not null. */
    void ended(@Nullable T value, @Nullable Throwable failure);
  }

  /**
   * Makes a call and waits for it. An interrupt does not shorten the wait, since the driver would
   * go on; the thread's flag stays set.
   *
   * @param about the subject that a hanging call is counted for
   * @throws TimeoutException when the deadline passed; only then {@code late} is called
   */
  public static <T> T run(
      Object about, String name, Duration deadline, Supplier<T> call, LateReturn<T> late)
      throws TimeoutException {
    return run(about, name, deadline, () -> Duration.ZERO, call, late, null);
  }

  /**
   * The same for a verb that may be asked to end before the deadline. The call is abandoned then.
   *
   * @param stop what asks the verb to end
   * @throws TimeoutException when the deadline passed, or the verb was asked to end
   */
  public static <T> T run(
      Object about,
      String name,
      Duration deadline,
      Supplier<T> call,
      LateReturn<T> late,
      @Nullable Stop stop)
      throws TimeoutException {
    return run(about, name, deadline, () -> Duration.ZERO, call, late, stop);
  }

  /**
   * Makes a call that may be given more time when its deadline has passed.
   *
   * @param more gives the time to wait longer, again and again; zero to abandon the call
   */
  static <T> T run(
      Object about,
      String name,
      Duration deadline,
      Supplier<Duration> more,
      Supplier<T> call,
      LateReturn<T> late)
      throws TimeoutException {
    return run(about, name, deadline, more, call, late, null);
  }

  private static <T> T run(
      Object about,
      String name,
      Duration deadline,
      Supplier<Duration> more,
      Supplier<T> call,
      LateReturn<T> late,
      @Nullable Stop stop)
      throws TimeoutException {
    CompletableFuture<T> answer = new CompletableFuture<>();
    Abandonment abandonment = new Abandonment(name);
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
            end(about, answer, value, failure, abandonment, late);
          } finally {
            Thread.currentThread().setName("gpuprocess idle");
          }
        });
    return await(about, answer, Durations.end(deadline), more, abandonment, stop);
  }

  private static <T> void end(
      Object about,
      CompletableFuture<T> answer,
      @Nullable T value,
      @Nullable Throwable failure,
      Abandonment abandonment,
      LateReturn<T> late) {
    if (failure == null ? answer.complete(value) : answer.completeExceptionally(failure)) {
      return;
    }
    abandonment.end();
    try {
      late.ended(value, failure);
    } catch (RuntimeException | Error e) {
      LOG.warn("{}: returned late, and its effect could not be undone", call(), e);
    } finally {
      // Only now: an undo can hang too, and keeps what the call used.
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
      Object about,
      CompletableFuture<T> answer,
      long end,
      Supplier<Duration> more,
      Abandonment abandonment,
      @Nullable Stop stop)
      throws TimeoutException {
    try {
      if (stop != null && !stop.await(answer, Durations.left(end))) {
        throw new TimeoutException();
      }
      return await(answer, end);
    } catch (TimeoutException e) {
      Duration longer = more.get();
      if (!longer.isZero()) {
        return await(about, answer, Durations.end(longer), more, abandonment, stop);
      }
      // The first to complete the answer wins; the call may have returned just now.
      count(about, 1);
      abandonment.begin();
      if (answer.completeExceptionally(e)) {
        throw e;
      }
      count(about, -1);
      return await(answer, end);
    }
  }

  /** Waits for an answer. An interrupt does not shorten the wait; the flag stays set. */
  static <T> T await(CompletableFuture<T> answer, long end) throws TimeoutException {
    return Uninterrupted.<T, TimeoutException>until(
        end,
        left -> {
          try {
            return answer.get(left, TimeUnit.NANOSECONDS);
          } catch (ExecutionException e) {
            throw rethrow(e.getCause());
          }
        });
  }

  private static RuntimeException rethrow(@Nullable Throwable cause) {
    if (cause instanceof Error error) {
      throw error;
    }
    // Suppliers throw nothing checked.
    return cause instanceof RuntimeException e ? e : new IllegalStateException(cause);
  }
}
