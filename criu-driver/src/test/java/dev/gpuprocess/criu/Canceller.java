package dev.gpuprocess.criu;

import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.options.Cancellation;
import java.util.concurrent.CompletableFuture;
import java.util.function.BooleanSupplier;

/** Cancels from another thread. */
final class Canceller {

  private Canceller() {}

  /**
   * Cancels as soon as something is so.
   *
   * @param what it is, for the message when it never comes
   * @return done when it has cancelled
   */
  static CompletableFuture<Void> when(
      Cancellation cancellation, BooleanSupplier moment, String what) {
    return CompletableFuture.runAsync(
        () -> {
          Workload.await(moment, what);
          cancellation.cancel();
        });
  }
}
