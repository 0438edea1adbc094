package dev.gpuprocess;

import dev.gpuprocess.report.Step;
import dev.gpuprocess.report.StepListener;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.function.Consumer;

/** A verb on a thread of its own that stops after its first lock until it is released. */
public final class HeldVerb implements AutoCloseable {

  private final CountDownLatch locked = new CountDownLatch(1);
  private final CountDownLatch gate = new CountDownLatch(1);
  private final CompletableFuture<Void> running;

  private HeldVerb(GpuCheckpoints checkpoints, Consumer<GpuCheckpoints> verb) {
    StepListener holding =
        new StepListener() {
          @Override
          public void finished(Step step) {
            if (step.name().equals("lock")) {
              locked.countDown();
              await(gate);
            }
          }
        };
    GpuCheckpoints held = checkpoints.toBuilder().listener(holding).build();
    running = CompletableFuture.runAsync(() -> verb.accept(held));
  }

  /** Starts one, and returns when it has locked the process or a member of the job. */
  public static HeldVerb start(GpuCheckpoints checkpoints, Consumer<GpuCheckpoints> verb) {
    HeldVerb held = new HeldVerb(checkpoints, verb);
    await(held.locked);
    return held;
  }

  static void await(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Lets it go on, and waits for its end, however that is. */
  public void letGo() {
    gate.countDown();
    try {
      running.handle((done, failed) -> failed).get();
    } catch (InterruptedException | java.util.concurrent.ExecutionException e) {
      throw new IllegalStateException(e);
    }
  }

  @Override
  public void close() {
    letGo();
  }
}
