package dev.gpuprocess.internal.call;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.internal.text.Printable;
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
 * Asks a verb to end early: when it is cancelled, when its thread is interrupted, or when its time
 * is up. The verb's thread makes and closes it; other threads that work for the verb may wait with
 * it. Once asked, it stays asked.
 */
public final class Stop implements AutoCloseable {

  /** Why a verb ends early. */
  public enum Reason {
    /** Its caller cancelled it. */
    CANCELLED("was cancelled"),
    /** The thread of its caller was interrupted. */
    INTERRUPTED("ended early because its thread was interrupted"),
    /** This JVM exits. */
    EXITING("ended early because this JVM is exiting"),
    /** Its time is up. */
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
  private final long end;
  private volatile boolean interrupted;

  /**
   * Begins.
   *
   * @param limit the time of the verb, which begins now
   */
  public Stop(Duration limit) {
    this.limit = limit;
    this.end = Durations.end(limit);
  }

  /**
   * Refuses to begin a verb that was cancelled before.
   *
   * @param subject the process or image, in words
   * @param pid the process, for the exception
   * @throws OperationCancelledException when it was
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

  /** Asks the verb to end when that is cancelled. */
  public void when(Cancellation cancellation, Reason reason) {
    registrations.add(
        cancellation.onCancel(
            () -> {
              boolean unused = asked.complete(reason);
            }));
  }

  /** Why the verb is to end early; empty when it is not. */
  public Optional<Reason> reason() {
    if (thread.equals(Thread.currentThread()) && Thread.interrupted()) {
      interrupt();
    }
    if (!asked.isDone() && Durations.left(end) <= 0) {
      boolean unused = asked.complete(Reason.LATE);
    }
    return Optional.ofNullable(asked.getNow(null));
  }

  /** Whether the verb is to end before its time is up. */
  public boolean isAskedEarly() {
    return reason().filter(why -> why != Reason.LATE).isPresent();
  }

  /** The time that is left. */
  public Duration remaining() {
    return Durations.remaining(end);
  }

  /**
   * The exception of a verb that ends early; only after it was asked to.
   *
   * @param verb what ends
   * @param subject the process, in words
   * @param moment what was under way, to be added to the sentence; or empty
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
   * Waits until a future is done or the verb is asked to end.
   *
   * @return false when it was asked to end before the future was done
   * @throws TimeoutException when neither came within the time
   */
  boolean await(CompletableFuture<?> answer, long nanos) throws TimeoutException {
    try {
      Object unused = CompletableFuture.anyOf(answer, asked).get(nanos, TimeUnit.NANOSECONDS);
    } catch (ExecutionException e) {
      return true;
    } catch (InterruptedException e) {
      interrupt();
    }
    return answer.isDone();
  }

  /** Waits until a future is done, however that ends. An interrupt asks the verb to end. */
  public void awaitDone(CompletableFuture<?> running) {
    while (!running.isDone()) {
      try {
        Object unused = running.get();
      } catch (ExecutionException e) {
        return;
      } catch (InterruptedException e) {
        interrupt();
      }
    }
  }

  /** Waits for that long, or until the verb is asked to end. */
  public void pause(Duration time) {
    try {
      boolean unused = await(asked, time.toNanos());
    } catch (TimeoutException over) {
      return;
    }
  }

  private void interrupt() {
    interrupted = true;
    boolean unused = asked.complete(Reason.INTERRUPTED);
  }

  /** The thread stays interrupted. */
  @Override
  public void close() {
    registrations.forEach(Cancellation.Registration::close);
    if (interrupted) {
      thread.interrupt();
    }
  }
}
