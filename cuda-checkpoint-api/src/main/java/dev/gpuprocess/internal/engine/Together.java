package dev.gpuprocess.internal.engine;

import dev.gpuprocess.internal.call.BoundedCall;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/** Runs bodies at the same time and waits for all of them. Each has a deadline of its own. */
final class Together {

  private Together() {}

  /**
   * Runs them; a single one on the caller's thread.
   *
   * @throws RuntimeException the first in order that one of them threw, with the others suppressed
   */
  static void run(List<Runnable> bodies) {
    run(bodies, running -> {});
  }

  /**
   * The same, waiting in another way.
   *
   * @param wait returns when a body has ended, however that is
   */
  static void run(List<Runnable> bodies, Consumer<CompletableFuture<?>> wait) {
    if (bodies.size() == 1) {
      bodies.get(0).run();
      return;
    }
    List<CompletableFuture<Void>> running = new ArrayList<>();
    bodies.forEach(body -> running.add(CompletableFuture.runAsync(body, BoundedCall.THREADS)));
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
