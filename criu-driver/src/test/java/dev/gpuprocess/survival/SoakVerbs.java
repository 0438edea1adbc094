package dev.gpuprocess.survival;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.GpuProcess;
import dev.gpuprocess.LockedProcess;
import dev.gpuprocess.ResumeOptions;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.criu.FileTree;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.image.LogDirectory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.IntConsumer;

/** Does verbs at random; that many of them are refused or fail is as it should be. */
final class SoakVerbs {

  private final GpuCheckpoints checkpoints;
  private final Path images;
  private final String name;
  private final AtomicInteger made = new AtomicInteger();
  private final AtomicInteger done = new AtomicInteger();
  private final AtomicInteger refused = new AtomicInteger();
  private final List<IntConsumer> verbs;

  /**
   * Verbs of one controller.
   *
   * @param name no other controller has it; its images are called after it
   */
  SoakVerbs(GpuCheckpoints checkpoints, Path images, String name) {
    this.checkpoints = checkpoints;
    this.images = images;
    this.name = name;
    this.verbs =
        List.of(
            pid -> checkpoints.process(pid).suspend().resume(),
            this::suspendAndLeaveTheBlock,
            pid -> checkpoints.process(pid).lock().unlock(),
            this::bringBack,
            this::bringBackInsured,
            pid -> checkpoints.process(pid).snapshot(newImage(pid)),
            this::dumpAndRestore,
            this::dumpAndRestore,
            pid -> checkpoints.process(pid).suspend().dump(newImage(pid)),
            pid -> checkpoints.doctor(pid),
            pid -> checkpoints.recover());
  }

  /** How many verbs, or rows of them, went through. */
  int done() {
    return done.get();
  }

  /** How many ended with an exception of the library. */
  int refused() {
    return refused.get();
  }

  /** Works on these processes until the time is over. */
  void work(Random random, List<Integer> pids, long endNanos) {
    while (System.nanoTime() < endNanos) {
      int pid = pids.get(random.nextInt(pids.size()));
      try {
        verbs.get(random.nextInt(verbs.size())).accept(pid);
        done.incrementAndGet();
      } catch (GpuCheckpointException e) {
        refused.incrementAndGet();
        removeLogs(e);
      }
    }
  }

  private void suspendAndLeaveTheBlock(int pid) {
    try (CheckpointedProcess suspended = checkpoints.process(pid).suspend()) {
      checkpoints.inspect(suspended.pid());
    }
  }

  private void dumpAndRestore(int pid) {
    checkpoints.process(pid).suspend().dump(newImage(pid)).restore().resume();
  }

  private void bringBack(int pid) {
    bringBack(checkpoints.inspect(pid));
  }

  private void bringBackInsured(int pid) {
    if (checkpoints.inspect(pid) instanceof RunningProcess running) {
      running.suspend().resume(ResumeOptions.ofDefaults().withInsurance(newImage(pid)));
    }
  }

  /** As a tool does that comes in the middle. */
  static void bringBack(GpuProcess found) {
    if (found instanceof LockedProcess locked) {
      locked.unlock();
    }
    if (found instanceof CheckpointedProcess suspended) {
      suspended.resume();
    }
  }

  private Path newImage(int pid) {
    return images.resolve("%d-%s-%d".formatted(pid, name, made.incrementAndGet()));
  }

  /** The exception names CRIU's log, which is kept for whoever reads it. */
  static void removeLogs(Throwable thrown) {
    if (thrown instanceof CriuException criu && criu.criu().log() != null) {
      Path directory = criu.criu().log().getParent();
      if (LogDirectory.isOne(directory) && Files.exists(directory)) {
        FileTree.remove(directory);
      }
    }
    if (thrown.getCause() != null) {
      removeLogs(thrown.getCause());
    }
    for (Throwable suppressed : thrown.getSuppressed()) {
      removeLogs(suppressed);
    }
  }
}
