package dev.gpuprocess.internal.call;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.internal.time.Threads;
import dev.gpuprocess.internal.time.Uninterrupted;
import dev.gpuprocess.report.ProcessIdentity;
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
 * A native call on a thread of its own that can be abandoned: a driver call on a stopped process
 * never returns and cannot be interrupted. Safe for use by several threads.
 *
 * <p>The threads are daemons, so an abandoned call does not keep the JVM alive.
 */
public final class BoundedCall<T> {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  public static final ExecutorService THREADS =
      Executors.newCachedThreadPool(work -> Threads.daemon("gpuprocess idle", work));

  /**
   * The most calls about one process or disk that may hang: they probably all hang for the same
   * reason.
   */
  public static final int MAX_ABANDONED_ABOUT_ONE = 4;

  /** The most calls that may hang altogether, so that the JVM does not run out of threads. */
  static final int MAX_ABANDONED = 1024;

  /** Numbers of abandoned calls by subject; none of them is 0. */
  private static final Map<Object, Integer> ABANDONED = new ConcurrentHashMap<>();

  private final Object about;
  private final String name;
  private final Supplier<Duration> more;
  private final LateReturn<T> late;
  private final @Nullable Stop stop;
  private final CompletableFuture<T> answer = new CompletableFuture<>();
  private volatile @Nullable AbandonedCallEvent event;

  private BoundedCall(
      Object about, String name, Supplier<Duration> more, LateReturn<T> late, @Nullable Stop stop) {
    this.about = about;
    this.name = name;
    this.more = more;
    this.late = late;
    this.stop = stop;
  }

  /** Returns how many abandoned calls have not returned yet, or are being undone. */
  public static int abandoned() {
    return ABANDONED.values().stream().mapToInt(Integer::intValue).sum();
  }

  /**
   * Refuses to begin an operation if too many calls hang. Not to be called in the middle of an
   * operation, nor for an operation that resumes a process.
   *
   * @param about the subject of the calls
   * @param name of the operation
   * @throws OperationInProgressException if too many abandoned calls hang, about the same subject
   *     or altogether
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

  /** Returns whether as many calls about a subject hang as are allowed for one subject. */
  static boolean isFull(Object about) {
    return ABANDONED.getOrDefault(about, 0) >= MAX_ABANDONED_ABOUT_ONE;
  }

  /** Returns whether a call about a subject was abandoned and has not returned. */
  public static boolean hangs(Object about) {
    return ABANDONED.containsKey(about);
  }

  private static OperationInProgressException refused(String why, Object about, String name) {
    return new OperationInProgressException(
        why + " (see the threads named \"gpuprocess ...\")",
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
   * continue; the thread's flag stays set.
   *
   * @param about the subject of the call, for which abandoned calls are counted
   * @throws TimeoutException at the deadline; only then {@code late} is called
   */
  public static <T> T run(
      Object about, String name, Duration deadline, Supplier<T> call, LateReturn<T> late)
      throws TimeoutException {
    return run(about, name, deadline, call, late, null);
  }

  /**
   * Makes a call of a verb that may be stopped before the deadline. The call is abandoned then.
   *
   * @param stop stops the verb early
   * @throws TimeoutException at the deadline, or if the verb was stopped
   */
  public static <T> T run(
      Object about,
      String name,
      Duration deadline,
      Supplier<T> call,
      LateReturn<T> late,
      @Nullable Stop stop)
      throws TimeoutException {
    return new BoundedCall<>(about, name, () -> Duration.ZERO, late, stop).run(deadline, call);
  }

  /**
   * Makes a call that may be given more time at its deadline.
   *
   * @param more returns the additional time, again and again; zero to abandon the call
   * @throws TimeoutException when there is no more time; only then {@code late} is called
   */
  public static <T> T run(
      Object about,
      String name,
      Duration deadline,
      Supplier<Duration> more,
      Supplier<T> call,
      LateReturn<T> late)
      throws TimeoutException {
    return new BoundedCall<>(about, name, more, late, null).run(deadline, call);
  }

  private T run(Duration deadline, Supplier<T> call) throws TimeoutException {
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
            end(value, failure);
          } finally {
            Thread.currentThread().setName("gpuprocess idle");
          }
        });
    return await(Deadline.after(deadline));
  }

  private void end(@Nullable T value, @Nullable Throwable failure) {
    if (failure == null ? answer.complete(value) : answer.completeExceptionally(failure)) {
      return;
    }
    AbandonedCallEvent begun = event;
    if (begun != null) {
      begun.commit();
    }
    try {
      late.ended(value, failure);
    } catch (RuntimeException | Error e) {
      LOG.warn("{}: returned late, and its effect could not be undone", name, e);
    } finally {
      // Only now: an undo can hang too, and keeps what the call used.
      count(about, -1);
    }
  }

  private static void count(Object about, int change) {
    ABANDONED.merge(about, change, (now, more) -> now + more == 0 ? null : now + more);
  }

  private T await(Deadline first) throws TimeoutException {
    Deadline deadline = first;
    while (true) {
      try {
        if (stop != null && !stop.await(answer, deadline.nanos())) {
          throw new TimeoutException();
        }
        return await(answer, deadline);
      } catch (TimeoutException e) {
        Duration longer = more.get();
        if (longer.isZero()) {
          return abandon(e);
        }
        deadline = Deadline.after(longer);
      }
    }
  }

  /** Abandons the call, unless it has returned just now: the first to set the answer wins. */
  private T abandon(TimeoutException why) throws TimeoutException {
    count(about, 1);
    event = AbandonedCallEvent.begun(name);
    if (answer.completeExceptionally(why)) {
      throw why;
    }
    count(about, -1);
    return await(answer, Deadline.after(Duration.ZERO));
  }

  /** Waits for an answer. An interrupt does not shorten the wait; the flag stays set. */
  static <T> T await(CompletableFuture<T> answer, Deadline deadline) throws TimeoutException {
    return Uninterrupted.<T, TimeoutException>until(
        deadline,
        left -> {
          try {
            return answer.get(left, TimeUnit.NANOSECONDS);
          } catch (ExecutionException e) {
            throw rethrow(e.getCause());
          }
        });
  }

  private static RuntimeException rethrow(@Nullable Throwable cause) {
    CallerFrames.addTo(cause);
    if (cause instanceof Error error) {
      throw error;
    }
    // Suppliers throw nothing checked.
    return cause instanceof RuntimeException e ? e : new IllegalStateException(cause);
  }
}
