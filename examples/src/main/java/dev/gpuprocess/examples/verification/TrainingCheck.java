package dev.gpuprocess.examples.verification;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.examples.demo.Scratch;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.LaunchOptions;
import java.io.PrintStream;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;

/**
 * A PyTorch training job, whatever processes it is of, is dumped in the middle of its run, which
 * ends it, and restored; it must go on with the next step and have the losses of an undisturbed run
 * at its end. A job that this JVM has launched must also tell its exit code then.
 */
final class TrainingJobCheck {

  /** How the job came to us. */
  enum Taken {
    /** It ran already, and knows nothing of us. */
    FOUND,
    /** By {@link GpuCheckpoints#launch(LaunchOptions)}. */
    LAUNCHED
  }

  /**
   * Unlinked semaphores and shared memory, locks, connections among its processes; children that
   * were forked with a GPU in their hands.
   */
  static final DumpOptions PYTORCH =
      DumpOptions.builder()
          .criu(c -> c.linkRemap(true).ghostLimit(64L << 20).fileLocks(true).tcpEstablished(true))
          .releaseInheritedGpu(true)
          .build();

  private static final Duration PATIENCE = Duration.ofMinutes(1);

  private final Machine machine;
  private final PrintStream out;
  private final String what;
  private final TrainingProgram program;

  TrainingJobCheck(Machine machine, PrintStream out, String what, TrainingProgram program) {
    this.machine = machine;
    this.out = out;
    this.what = what;
    this.program = program;
  }

  Outcome run(Taken taken) {
    try (Scratch scratch = Scratch.create();
        Trainer reference = Trainer.start(scratch, "undisturbed", program)) {
      if (taken == Taken.FOUND) {
        try (Trainer trainer = Trainer.start(scratch, "disturbed", program)) {
          trainer.awaitStep(program.steps() / 3);
          return trip(machine.checkpoints().process(trainer.pid()), trainer, scratch, reference);
        }
      }
      Trainer.Launched launched =
          Trainer.launch(machine.checkpoints(), scratch, "disturbed", program);
      try (Trainer trainer = launched.trainer()) {
        trainer.awaitStep(program.steps() / 3);
        Outcome outcome = trip(launched.job().process(), trainer, scratch, reference);
        OptionalInt code =
            launched.job().awaitExit(PATIENCE).map(exit -> exit.code()).orElse(OptionalInt.empty());
        return code.equals(OptionalInt.of(0))
            ? outcome
            : Outcome.failed(what, "its exit code is " + code + "\n" + outcome.numbers());
      }
    }
  }

  private Outcome trip(RunningProcess job, Trainer trainer, Scratch scratch, Trainer reference) {
    Timing timing = new Timing();
    CheckpointedProcess suspended = timing.of("suspend", job::suspend);
    String members = Members.text(suspended);
    out.println("  suspended: " + members);
    ProcessImage image = timing.of("dump", () -> suspended.dump(scratch.resolve("image"), PYTORCH));
    // Counted now that the job is gone: its CPU threads lived on until then.
    int step = trainer.lines().size();
    out.println("  dumped after step " + Trainer.last(trainer.lines()));
    CheckpointedProcess restored = timing.of("criu restore", image::restore);
    trainer.restoredAs(restored.identity());
    timing.of("resume", restored::resume);
    List<String> lines = trainer.awaitEnd();
    List<String> undisturbed = reference.awaitEnd();
    Optional<String> next = step < lines.size() ? Optional.of(lines.get(step)) : Optional.empty();
    String numbers =
        "%s%ndumped after step %s, went on with %s; undisturbed %s%n%s; image of %s MiB"
            .formatted(
                members,
                lines.get(step - 1),
                next.orElse("nothing"),
                undisturbed.get(Math.min(step, undisturbed.size() - 1)),
                timing,
                image.manifest().bytes() >> 20);
    return lines.equals(undisturbed) && step < program.steps()
        ? Outcome.passed(
            what, program.steps() + " losses and the sum equal an undisturbed run's\n" + numbers)
        : Outcome.failed(what, "losses differ\n" + numbers);
  }
}
