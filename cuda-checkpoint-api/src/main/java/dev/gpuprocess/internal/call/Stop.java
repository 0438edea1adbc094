package dev.gpuprocess.internal.call;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.options.Cancellation;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * A request that a verb end early: it was cancelled, its thread was interrupted, or its time limit
 * is reached. The verb's thread creates and closes this; other threads of the verb may wait on it.
 * A request is never withdrawn.
 */
public final class Stop implements AutoCloseable {

  /** Why a verb ends early. */
  public enum Reason {
    /** The caller cancelled the verb. */
    CANCELLED("was cancelled"),
    /** The thread of the caller was interrupted. */
    INTERRUPTED("ended early because its thread was interrupted"),
    /** This JVM exits. */
    EXITING("ended early because this JVM is exiting"),
    /** The time limit of the verb is reached. */
    LATE("did not end within its deadline");

    private final String words;

    Reason(String words) {
      this.words = words;
    }
  }

  private final CompletableFuture<Reason> asked = new CompletableFuture<>();
  private final List<Cancellation.Registration> registrations = new ArrayList<>();
  private final Thread thread = Thread.currentThread();
  private final Duration limit;
  private final Deadline deadline;
  private volatile boolean interrupted;

  /**
   * Begins the time of a verb.
   *
   * @param limit the time limit of the verb
   */
  public Stop(Duration limit) {
    this.limit = limit;
    this.deadline = Deadline.after(limit);
  }

  /**
   * Refuses to begin a verb that was cancelled before.
   *
   * @param subject the process or image, in words
   * @param pid of the process, for the exception
   * @throws OperationCancelledException if so
   */
  public static void requireNotCancelled(
      Optional<Cancellation> cancellation, String verb, String subject, long pid) {
    try (Stop stop = new Stop(Durations.LONGEST)) {
      cancellation.ifPresent(by -> stop.when(by, Reason.CANCELLED));
      if (stop.asked.isDone()) {
        throw stop.exception(
            verb, subject, " before it began: nothing was touched", Failure.of(verb, pid));
      }
    }
  }

  /** Requests the end of the verb when the cancellation happens. */
  public void when(Cancellation cancellation, Reason reason) {
    registrations.add(
        cancellation.onCancel(
            () -> {
              asked.complete(reason);
            }));
  }

  /** Returns why the verb must end early; empty if it need not. */
  public Optional<Reason> reason() {
    if (thread.equals(Thread.currentThread()) && Thread.interrupted()) {
      interrupt();
    }
    if (!asked.isDone() && deadline.passed()) {
      asked.complete(Reason.LATE);
    }
    return Optional.ofNullable(asked.getNow(null));
  }

  /** Returns whether the verb must end before its time limit. */
  public boolean isAskedEarly() {
    return reason().filter(why -> why != Reason.LATE).isPresent();
  }

  /** Returns the remaining time. */
  public Duration remaining() {
    return deadline.remaining();
  }

  /**
   * Returns the exception of a verb that ends early. To be called after a request.
   *
   * @param subject the process, in words
   * @param moment the end of the sentence: what was under way; or empty
   */
  public GpuCheckpointException exception(
      String verb, String subject, String moment, Failure failure) {
    Reason reason = reason().orElseThrow();
    String message = "%s of %s %s".formatted(verb, subject, reason.words);
    return reason == Reason.LATE
        ? new OperationTimedOutException(message + " of " + Printable.of(limit) + moment, failure)
        : new OperationCancelledException(message + moment, failure);
  }

  /**
   * Waits until a future is done or the end of the verb is requested.
   *
   * @return false if the end was requested before the future was done
   * @throws TimeoutException if neither happened within the time
   */
  boolean await(CompletableFuture<?> answer, long nanos) throws TimeoutException {
    try {
      CompletableFuture.anyOf(answer, asked).get(nanos, TimeUnit.NANOSECONDS);
    } catch (ExecutionException e) {
      return true;
    } catch (InterruptedException e) {
      interrupt();
    }
    return answer.isDone();
  }

  /** Waits until a future is done or failed. An interrupt requests the end of the verb. */
  public void awaitDone(CompletableFuture<?> running) {
    while (!running.isDone()) {
      try {
        running.get();
      } catch (ExecutionException e) {
        return;
      } catch (InterruptedException e) {
        interrupt();
      }
    }
  }

  /** Waits for a time, or until the end of the verb is requested. */
  public void pause(Duration time) {
    try {
      await(asked, time.toNanos());
    } catch (TimeoutException over) {
      return;
    }
  }

  private void interrupt() {
    interrupted = true;
    asked.complete(Reason.INTERRUPTED);
  }

  /** Interrupts the thread again if it was interrupted. */
  @Override
  public void close() {
    registrations.forEach(Cancellation.Registration::close);
    if (interrupted) {
      thread.interrupt();
    }
  }
}
