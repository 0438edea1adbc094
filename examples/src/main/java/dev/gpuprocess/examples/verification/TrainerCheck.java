package dev.gpuprocess.examples.verification;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.examples.demo.Progress;
import dev.gpuprocess.examples.demo.Scratch;
import dev.gpuprocess.examples.verification.Trainer.Loaders;
import dev.gpuprocess.options.DumpOptions;
import java.util.List;
import java.util.Optional;

/**
 * A check of a PyTorch trainer, which is dumped and restored in the middle of its run and must
 * continue from the same step with the losses of an undisturbed run. Forked data loaders inherit
 * GPU files that cannot be dumped: the first dump must be refused, and a second one that releases
 * these files must succeed.
 */
final class TrainerCheck {

  private static final int STEPS = 200;

  /** For loaders, which have unlinked semaphores and shared memory, locks and connections. */
  static final DumpOptions WITH_LOADERS =
      DumpOptions.builder()
          .criu(c -> c.linkRemap(true).ghostLimit(64L << 20).fileLocks(true).tcpEstablished(true))
          .build();

  private final Machine machine;
  private final int mebibytes;
  private final Loaders loaders;
  private final Progress progress;
  private final String what;

  TrainerCheck(Machine machine, int mebibytes, Loaders loaders, Progress progress) {
    this.machine = machine;
    this.mebibytes = mebibytes;
    this.loaders = loaders;
    this.progress = progress;
    this.what = name(loaders);
  }

  /** Returns the name of the row. */
  static String name(Loaders loaders) {
    return switch (loaders) {
      case NONE -> "PyTorch trainer";
      case SPAWN -> "PyTorch, loaders spawned";
      case FORK -> "PyTorch, loaders forked";
    };
  }

  Outcome run() {
    if (machine.isSimulated()) {
      return Outcome.skipped(what, "PyTorch needs a real GPU");
    }
    Optional<String> missing = Trainer.whyMissing();
    if (missing.isPresent()) {
      return Outcome.skipped(what, missing.get());
    }
    try (Scratch scratch = Scratch.create()) {
      List<String> undisturbed;
      try (Trainer reference = start(scratch, "undisturbed")) {
        undisturbed = reference.awaitEnd();
      }
      progress.print("undisturbed", "step " + undisturbed.get(STEPS - 1) + ", the last");
      try (Trainer trainer = start(scratch, "disturbed")) {
        trainer.awaitStep(STEPS / 3);
        GpuCheckpoints checkpoints = machine.checkpoints().toBuilder().listener(progress).build();
        CheckpointedProcess suspended = checkpoints.process(trainer.pid()).suspend();
        return loaders == Loaders.FORK
            ? refusedFirst(suspended, trainer, scratch, undisturbed)
            : trip(suspended, trainer, scratch, undisturbed, options());
      }
    }
  }

  private Trainer start(Scratch scratch, String name) {
    return Trainer.start(scratch, name, TrainingProgram.trainer(STEPS, mebibytes, loaders));
  }

  private DumpOptions options() {
    return loaders == Loaders.NONE ? DumpOptions.ofDefaults() : WITH_LOADERS;
  }

  private Outcome trip(
      CheckpointedProcess suspended,
      Trainer trainer,
      Scratch scratch,
      List<String> undisturbed,
      DumpOptions options) {
    ProcessImage image = suspended.dump(scratch.resolve("image"), options);
    // Counted after the dump, because the CPU threads run until then.
    int step = trainer.lines().size();
    progress.print("dumped", "after step " + Trainer.last(trainer.lines()));
    CheckpointedProcess restored = image.restore();
    trainer.restoredAs(restored.identity());
    RunningProcess again = restored.resume();
    List<String> lines = trainer.awaitEnd();
    progress.print("went on", "with step " + lines.get(step));
    return compare(
        lines,
        undisturbed,
        "dumped after step %s%nwent on with step %s%nundisturbed, step %s%n%s"
            .formatted(
                lines.get(step - 1),
                lines.get(step),
                undisturbed.get(step),
                Figures.ofLastTrip(again.steps())));
  }

  private Outcome refusedFirst(
      CheckpointedProcess suspended, Trainer trainer, Scratch scratch, List<String> undisturbed) {
    try {
      suspended.dump(scratch.resolve("image"), WITH_LOADERS);
      return Outcome.failed(what, "the dump of children that hold the GPU was not refused");
    } catch (FixAndRetryException e) {
      if (e.reason() != FixAndRetryException.Reason.CUDA_CHILD) {
        throw e;
      }
      progress.print("refused", String.valueOf(e.getMessage()));
    }
    DumpOptions releasing = WITH_LOADERS.toBuilder().releaseInheritedGpu(true).build();
    return trip(suspended, trainer, scratch, undisturbed, releasing);
  }

  private Outcome compare(List<String> lines, List<String> undisturbed, String numbers) {
    return lines.equals(undisturbed)
        ? Outcome.passed(
            what,
            STEPS + " losses and the sum of its memory equal an undisturbed run's\n" + numbers)
        : Outcome.failed(what, "losses differ\n" + numbers);
  }
}
