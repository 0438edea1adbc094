package dev.gpuprocess.examples.demo;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.Step;
import java.time.Duration;
import java.util.List;

/** The main job: a counter leaves its GPU, goes to disk, comes back and continues. */
public final class MainJob {

  private static final Duration PATIENCE = Duration.ofSeconds(30);
  private static final long MIB = 1 << 20;
  private static final long KIB = 1 << 10;

  private MainJob() {}

  /**
   * The result.
   *
   * @param before the number of the counter before it left the GPU
   * @param after its next number
   * @param steps the steps from the first number to the next
   */
  public record Result(int before, int after, List<Step> steps) {
    public boolean continued() {
      return before == 101 && after == 102;
    }
  }

  /** Runs the main job, and removes process and image even if a step fails. */
  public static Result run(Machine machine, Progress progress) {
    GpuCheckpoints checkpoints = machine.checkpoints().toBuilder().listener(progress).build();
    try (Scratch scratch = Scratch.create();
        Counter counter = machine.on(Counter.launch()).start()) {
      String gpu = counter.gpu();
      int before = counter.increment();
      progress.print("counter", "pid %s on %s answers %s".formatted(counter.pid(), gpu, before));

      long freeBefore = machine.freeMemory(gpu);
      CheckpointedProcess suspended = checkpoints.process(counter.pid()).lock().checkpoint();
      progress.print(
          "GPU memory",
          "%s MiB free, %s MiB before".formatted(machine.freeMemory(gpu) / MIB, freeBefore / MIB));

      ProcessImage image = suspended.dump(scratch.resolve("image"));
      requireGone(counter);
      progress.print(
          "on disk",
          "%s files, %s KiB; process %s is gone"
              .formatted(
                  image.manifest().files().size(), image.manifest().bytes() / KIB, counter.pid()));

      RunningProcess again = image.restore().restore().unlock();
      int after = counter.increment();
      progress.print(
          "counter", "pid %s on %s answers %s".formatted(again.pid(), counter.gpu(), after));
      return new Result(before, after, again.steps());
    }
  }

  private static void requireGone(Counter counter) {
    if (!counter.awaitExit(PATIENCE) || ProcessIdentity.of(counter.pid()).isPresent()) {
      throw new IllegalStateException("process " + counter.pid() + " still exists after its dump");
    }
  }
}
