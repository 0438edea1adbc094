package dev.gpuprocess.examples.demo;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.progress.Step;
import java.time.Duration;
import java.util.List;

/** The main job: a counter leaves its GPU, goes to disk, comes back and goes on. */
public final class MainJob {

  private static final Duration PATIENCE = Duration.ofSeconds(30);
  private static final long MIB = 1 << 20;
  private static final long KIB = 1 << 10;

  private MainJob() {}

  /**
   * How it went.
   *
   * @param before the counter's answer before it left the GPU
   * @param after its next answer
   * @param steps all that was done in between
   */
  public record Result(int before, int after, List<Step> steps) {
    public boolean wentOn() {
      return before == 101 && after == 102;
    }
  }

  /** Does it all, and leaves nothing behind, whatever fails. */
  public static Result run(Machine machine, Progress progress) {
    GpuCheckpoints checkpoints = machine.checkpoints().toBuilder().listener(progress).build();
    try (Scratch scratch = Scratch.create();
        Counter counter = machine.on(Counter.launch()).start()) {
      String gpu = counter.gpu();
      int before = counter.increment();
      progress.say("counter", "pid %s on %s answers %s".formatted(counter.pid(), gpu, before));

      long freeBefore = machine.freeMemory(gpu);
      CheckpointedProcess suspended = checkpoints.process(counter.pid()).lock().checkpoint();
      progress.say(
          "GPU memory",
          "%s MiB free, %s MiB before".formatted(machine.freeMemory(gpu) / MIB, freeBefore / MIB));

      ProcessImage image = suspended.dump(scratch.resolve("image"));
      requireGone(counter);
      progress.say(
          "on disk",
          "%s files, %s KiB; process %s is gone"
              .formatted(
                  image.manifest().files().size(), image.manifest().bytes() / KIB, counter.pid()));

      RunningProcess again = image.restore().restore().unlock();
      int after = counter.increment();
      progress.say(
          "counter", "pid %s on %s answers %s".formatted(again.pid(), counter.gpu(), after));
      return new Result(before, after, again.steps());
    }
  }

  private static void requireGone(Counter counter) {
    if (!counter.awaitExit(PATIENCE) || ProcessIdentity.of(counter.pid()).isPresent()) {
      throw new IllegalStateException(
          "process " + counter.pid() + " is still there after its dump");
    }
  }
}
