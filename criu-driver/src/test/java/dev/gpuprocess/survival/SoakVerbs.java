package dev.gpuprocess.survival;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.GpuProcess;
import dev.gpuprocess.LockedProcess;
import dev.gpuprocess.PoisonedProcess;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.criu.FileTree;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.internal.image.LogDirectory;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.ResumeOptions;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.IntConsumer;

/** Runs random verbs; many of them are refused or fail as expected. */
final class SoakVerbs {

  private static final Duration PATIENCE = Duration.ofSeconds(30);

  private final GpuCheckpoints checkpoints;
  private final Path images;
  private final Path squat;

  /** The weights of the verbs, in their order. */
  private static final List<String> NAMES =
      List.of(
          "suspend, resume",
          "suspend and leave the block",
          "lock, unlock",
          "bring back",
          "bring back with a fallback image",
          "snapshot",
          "dump and restore",
          "dump and restore",
          "dump",
          "doctor",
          "recover",
          "squatted");

  /** The verbs that move no process, or only a process without other verbs. */
  private static final Set<String> READERS = Set.of("doctor", "recover");

  private static final Duration AT_ONCE = Duration.ofMillis(10);

  private final String name;
  private final ControllerReport tally;
  private final AtomicInteger made = new AtomicInteger();
  private final List<IntConsumer> verbs;
  private final VerbLog log;

  /**
   * Verbs of one controller.
   *
   * @param squat has state directories that must not be used
   * @param name no other controller has it; its images are called after it
   */
  SoakVerbs(
      GpuCheckpoints checkpoints, Path images, Path squat, String name, ControllerReport tally) {
    this.checkpoints = checkpoints;
    this.images = images;
    this.squat = squat;
    this.log = VerbLog.open(VerbLog.beside(images));
    this.name = name;
    this.tally = tally;
    this.verbs =
        List.of(
            pid -> checkpoints.process(pid).suspend().resume(),
            this::suspendAndLeaveTheBlock,
            pid -> checkpoints.process(pid).lock().unlock(),
            this::bringBack,
            this::bringBackInsured,
            pid -> checkpoints.process(pid).snapshot(newImage(pid), oneWayOrTheOther()),
            this::dumpAndRestore,
            this::dumpAndRestore,
            pid -> checkpoints.process(pid).suspend().dump(newImage(pid), oneWayOrTheOther()),
            pid -> checkpoints.doctor(pid),
            pid -> checkpoints.recover(),
            this::squatted);
  }

  /** Runs verbs on these processes until the time is over. */
  void work(Random random, List<Integer> pids, long endNanos) {
    while (System.nanoTime() < endNanos) {
      int pid = pids.get(random.nextInt(pids.size()));
      int verb = random.nextInt(verbs.size());
      Instant begun = Instant.now();
      try {
        verbs.get(verb).accept(pid);
        tally.done();
        tell(pid, verb, begun, "done");
      } catch (GpuCheckpointException e) {
        tally.refused();
        tell(pid, verb, begun, e);
        removeLogs(e);
      }
    }
  }

  /** Verbs without an effect are not logged, because there are very many. */
  private void tell(int pid, int verb, Instant begun, Object outcome) {
    boolean atOnce = Duration.between(begun, Instant.now()).compareTo(AT_ONCE) < 0;
    boolean refused =
        outcome instanceof OperationInProgressException
            || (atOnce && outcome instanceof GpuCheckpointException);
    if (!refused && !READERS.contains(NAMES.get(verb))) {
      log.tell(pid, name, "%s, begun %s: %s".formatted(NAMES.get(verb), begun, outcome));
    }
  }

  private void suspendAndLeaveTheBlock(int pid) {
    try (CheckpointedProcess suspended = checkpoints.process(pid).suspend()) {
      checkpoints.inspect(suspended.pid());
    }
  }

  private void dumpAndRestore(int pid) {
    checkpoints.process(pid).suspend().dump(newImage(pid), oneWayOrTheOther()).restore().resume();
  }

  private void bringBack(int pid) {
    bringBack(checkpoints.inspect(pid));
  }

  private void bringBackInsured(int pid) {
    if (checkpoints.inspect(pid) instanceof RunningProcess running) {
      running.suspend().resume(ResumeOptions.builder().fallbackImage(newImage(pid)).build());
    }
  }

  /** In a directory of another user no verb does anything, and none hangs. */
  private void squatted(int pid) {
    List<Path> directories = SquattedDirectories.directories(squat);
    Path squatted = directories.get(made.incrementAndGet() % directories.size());
    CheckpointedProcess suspended =
        checkpoints.toBuilder().stateDirectory(squatted).build().process(pid).suspend();
    tally.addViolation(
        Violation.Kind.WRONG,
        "process %s was suspended with the state directory %s, which belongs to another user"
            .formatted(suspended.pid(), squatted.getFileName()));
    suspended.resume();
  }

  /** Acts like a tool that finds the process in any state. */
  static void bringBack(GpuProcess found) {
    if (found instanceof LockedProcess locked) {
      locked.unlock();
    }
    if (found instanceof CheckpointedProcess suspended) {
      suspended.resume();
    }
    if (found instanceof PoisonedProcess lost) {
      lost.resume();
    }
  }

  /**
   * Mostly with the GPU memory in files of its own, sometimes by CRIU alone. What a forked child
   * inherited of the GPU is mostly taken from it, and sometimes makes the dump be refused.
   */
  private DumpOptions oneWayOrTheOther() {
    return DumpOptions.builder()
        .memoryFiles(made.get() % 3 != 0)
        .releaseInheritedGpu(made.get() % 5 != 0)
        .build();
  }

  private Path newImage(int pid) {
    // The digits of no language.
    return images.resolve(pid + "-" + name + "-" + made.incrementAndGet());
  }

  /** Removes CRIU's log, which the exception names. */
  static void removeLogs(Throwable thrown) {
    Path log = thrown instanceof CriuException e ? e.criu().orElseThrow().log() : null;
    if (log != null) {
      Path directory = log.getParent();
      if (LogDirectory.isOne(directory)) {
        Waiting.until(PATIENCE, () -> isRemoved(directory));
      }
    }
    if (thrown.getCause() != null) {
      removeLogs(thrown.getCause());
    }
    for (Throwable suppressed : thrown.getSuppressed()) {
      removeLogs(suppressed);
    }
  }

  /** Returns false without free descriptors. Remaining files are found as leaks. */
  private static boolean isRemoved(Path directory) {
    try {
      if (Files.exists(directory)) {
        FileTree.remove(directory);
      }
      return true;
    } catch (UncheckedIOException e) {
      return false;
    }
  }
}
