package dev.gpuprocess.options;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;

/** The actions of a {@link Cancellation}. */
class CancellationTest {

  private final Cancellation cancellation = new Cancellation();
  private final List<String> done = new ArrayList<>();

  private Cancellation.Registration action(String name) {
    return cancellation.onCancel(() -> done.add(name));
  }

  @Test
  void actionThatThrowsDoesNotKeepOthersFromBeingRun() {
    action("first");
    cancellation.onCancel(
        () -> {
          throw new AssertionError("of an action");
        });
    cancellation.onCancel(
        () -> {
          throw new IllegalStateException("of an action");
        });
    action("last");
    cancellation.cancel();
    cancellation.cancel();
    assertEquals(List.of("first", "last"), done);
    action("late");
    assertEquals(List.of("first", "last", "late"), done);
  }

  /** An action that waits for another thread, which uses the same cancellation. */
  @Test
  void actionsRunWithoutTheLock() {
    Cancellation.Registration other = action("other");
    cancellation.onCancel(
        () -> {
          boolean seen =
              CompletableFuture.supplyAsync(
                      () -> {
                        cancellation.onCancel(() -> done.add("by another thread")).close();
                        return cancellation.isCancelled();
                      })
                  .join();
          done.add("cancelled: " + seen);
        });
    Cancellation.Registration closed = action("closed");
    closed.close();
    cancellation.cancel();
    other.close();
    assertEquals(List.of("other", "by another thread", "cancelled: true"), done);
    assertTrue(cancellation.isCancelled());
  }
}
