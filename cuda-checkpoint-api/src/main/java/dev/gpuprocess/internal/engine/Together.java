package dev.gpuprocess.internal.engine;

import dev.gpuprocess.internal.call.BoundedCall;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import org.jspecify.annotations.Nullable;

/** Runs things at the same time, each of which has a deadline of its own, and waits for all. */
final class Together {

  private Together() {}

  /**
   * Runs them; a single one on the thread of the caller.
   *
   * @throws RuntimeException the first in order that one of them threw, with the others suppressed
   */
  static void run(List<Runnable> bodies) {
    if (bodies.size() == 1) {
      bodies.get(0).run();
      return;
    }
    List<CompletableFuture<Void>> running = new ArrayList<>();
    bodies.forEach(body -> running.add(CompletableFuture.runAsync(body, BoundedCall.THREADS)));
    Throwable first = null;
    for (CompletableFuture<Void> each : running) {
      first = join(each, first);
    }
    if (first instanceof Error error) {
      throw error;
    }
    if (first != null) {
      throw (RuntimeException) first;
    }
  }

  private static @Nullable Throwable join(
      CompletableFuture<Void> running, @Nullable Throwable first) {
    try {
      running.join();
      return first;
    } catch (CompletionException e) {
      // A Runnable throws nothing checked.
      Throwable thrown = e.getCause();
      if (first == null) {
        return thrown;
      }
      first.addSuppressed(thrown);
      return first;
    }
  }
}
