package dev.gpuprocess.internal.engine;

import dev.gpuprocess.internal.call.BoundedCall;
import dev.gpuprocess.internal.call.CallerFrames;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.Executor;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/** Runs a step on several members at the same time, and waits until it has ended on all. */
final class Parallel {

  private Parallel() {}

  /**
   * Runs a step; on a single member on the caller's thread. Each run has a deadline of its own.
   *
   * @throws RuntimeException the first one, in the order of the members, with the others suppressed
   */
  static <T> void forEach(List<T> members, Consumer<T> step) {
    forEach(members, step, running -> {});
  }

  /**
   * Runs a step as {@link #forEach(List, Consumer)} does, with another way to wait.
   *
   * @param wait returns when a run has ended, also when it failed
   */
  static <T> void forEach(List<T> members, Consumer<T> step, Consumer<CompletableFuture<?>> wait) {
    forEach(members, step, wait, BoundedCall.THREADS);
  }

  static <T> void forEach(
      List<T> members, Consumer<T> step, Consumer<CompletableFuture<?>> wait, Executor threads) {
    if (members.size() == 1) {
      step.accept(members.get(0));
      return;
    }
    List<CompletableFuture<Void>> running = new ArrayList<>();
    members.forEach(each -> running.add(started(() -> step.accept(each), threads)));
    Throwable first = null;
    for (CompletableFuture<Void> each : running) {
      wait.accept(each);
      first = join(each, first);
    }
    if (first instanceof Error error) {
      throw error;
    }
    if (first != null) {
      throw (RuntimeException) first;
    }
  }

  /** Returns a failed run if its thread cannot be started: the others must have ended as well. */
  private static CompletableFuture<Void> started(Runnable run, Executor threads) {
    try {
      return CompletableFuture.runAsync(run, threads);
    } catch (RuntimeException | Error e) {
      return CompletableFuture.failedFuture(e);
    }
  }

  private static @Nullable Throwable join(
      CompletableFuture<Void> running, @Nullable Throwable first) {
    try {
      running.join();
      return first;
    } catch (CompletionException e) {
      // A Consumer throws nothing checked.
      Throwable thrown = e.getCause();
      CallerFrames.addTo(thrown);
      if (first == null) {
        return thrown;
      }
      first.addSuppressed(thrown);
      return first;
    }
  }
}
