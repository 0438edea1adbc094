package dev.gpuprocess.examples.agent;

import dev.gpuprocess.options.Cancellation;
import io.grpc.Status;
import java.time.Duration;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.function.ToLongFunction;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Verbs that continue after the call that began them, one at a time for each job. May be used from
 * any thread.
 */
final class Operations implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger(Operations.class);

  /** How many operations are kept; the oldest are removed first. */
  private static final int KEPT = 1000;

  /** The largest number of verbs at a time. */
  private static final int AT_ONCE = 64;

  private final Map<String, Operation> all =
      Collections.synchronizedMap(
          new LinkedHashMap<>() {
            private static final long serialVersionUID = 1L;

            @Override
            protected boolean removeEldestEntry(Map.Entry<String, Operation> eldest) {
              return size() > KEPT && !eldest.getValue().isPending();
            }
          });
  private final Map<String, Cancellation> busy = new HashMap<>();
  private final ExecutorService threads;

  Operations() {
    this(Threads.bounded("gpuprocess operation", AT_ONCE, 0));
  }

  Operations(ExecutorService threads) {
    this.threads = threads;
  }

  /** A verb that was begun. */
  static final class Operation {

    private final long began = System.nanoTime();
    private volatile @Nullable Result result;

    private record Result(long ended, long bytes, @Nullable String failure) {}

    boolean isPending() {
      return result == null;
    }

    /** Returns why it failed; null if it is pending or complete. */
    @Nullable String failure() {
      Result known = result;
      return known == null ? null : known.failure();
    }

    /** Returns the bytes that a complete operation moved. */
    long bytes() {
      Result known = result;
      return known == null ? 0 : known.bytes();
    }

    /** Returns the time until now, or until it ended. */
    Duration elapsed() {
      Result known = result;
      return Duration.ofNanos((known == null ? System.nanoTime() : known.ended()) - began);
    }
  }

  /**
   * Begins an operation on a job.
   *
   * @param job is refused with ABORTED if another operation on it has not ended, and with
   *     RESOURCE_EXHAUSTED if too many verbs are under way
   * @param prepare checks that the operation is possible, and returns the verb, which returns the
   *     bytes that it moved; a null begins nothing
   * @return the id of the operation; empty if nothing was begun
   */
  Optional<String> begin(String job, Supplier<@Nullable ToLongFunction<Cancellation>> prepare) {
    Cancellation cancellation = new Cancellation();
    synchronized (busy) {
      if (busy.putIfAbsent(job, cancellation) != null) {
        throw Status.ABORTED
            .withDescription(
                "job %s is being suspended or resumed; wait for that operation".formatted(job))
            .asRuntimeException();
      }
    }
    boolean begun = false;
    try {
      ToLongFunction<Cancellation> verb = prepare.get();
      if (verb == null) {
        return Optional.empty();
      }
      String id = UUID.randomUUID().toString();
      Operation operation = new Operation();
      all.put(id, operation);
      try {
        threads.execute(() -> run(job, operation, verb, cancellation));
      } catch (RejectedExecutionException | OutOfMemoryError e) {
        all.remove(id);
        throw Status.RESOURCE_EXHAUSTED
            .withDescription(
                "%s verbs are under way in this agent; wait until one has ended".formatted(AT_ONCE))
            .withCause(e)
            .asRuntimeException();
      }
      begun = true;
      return Optional.of(id);
    } finally {
      if (!begun) {
        end(job);
      }
    }
  }

  private void run(
      String job,
      Operation operation,
      ToLongFunction<Cancellation> verb,
      Cancellation cancellation) {
    long bytes = 0;
    String failure = null;
    try {
      bytes = verb.applyAsLong(cancellation);
    } catch (RuntimeException | Error e) {
      LOG.warn("the operation on job {} failed: {}", job, e.toString());
      LOG.debug("job {}", job, e);
      failure = e.getMessage() == null ? e.toString() : e.getMessage();
    }
    if (failure == null) {
      LOG.info("the operation on job {} is done, {} bytes", job, bytes);
    }
    // The job is free before its operation has ended, so that the next call is not refused.
    end(job);
    operation.result = new Operation.Result(System.nanoTime(), bytes, failure);
  }

  private void end(String job) {
    synchronized (busy) {
      busy.remove(job);
    }
  }

  /** Returns an operation that was begun here; empty if it is too old, too. */
  Optional<Operation> find(String id) {
    return Optional.ofNullable(all.get(id));
  }

  boolean isBusy(String job) {
    synchronized (busy) {
      return busy.containsKey(job);
    }
  }

  /** Cancels the operations, and waits until they are undone or done. */
  @Override
  public void close() {
    threads.shutdown();
    synchronized (busy) {
      busy.values().forEach(Cancellation::cancel);
    }
    if (!ended(threads)) {
      LOG.warn("an operation did not end within a minute; recover mends its process");
    }
  }

  /**
   * Waits until the threads of an executor that was shut down have ended, for up to a minute. An
   * interrupt, as a signal causes it, does not shorten that; the thread stays interrupted.
   */
  static boolean ended(ExecutorService executor) {
    long deadline = System.nanoTime() + TimeUnit.MINUTES.toNanos(1);
    boolean interrupted = false;
    try {
      while (true) {
        try {
          return executor.awaitTermination(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
        } catch (InterruptedException e) {
          interrupted = true;
        }
      }
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }
}
