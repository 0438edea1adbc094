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
 * A check of a PyTorch training run with any number of processes, which is dumped in the middle of
 * its run and restored. It must continue with the next step, and have the losses of an undisturbed
 * run at its end. The exit code of a run that this JVM has launched must be known then.
 */
final class TrainingCheck {

  /** The origin of the process. */
  enum Taken {
    /** A process that was started without the library. */
    FOUND,
    /** A process of {@link GpuCheckpoints#launch(LaunchOptions)}. */
    LAUNCHED
  }

  private static final DumpOptions WITH_FORKED_LOADERS =
      TrainerCheck.WITH_LOADERS.toBuilder().releaseInheritedGpu(true).build();

  private static final Duration PATIENCE = Duration.ofMinutes(1);

  private final Machine machine;
  private final PrintStream out;
  private final String what;
  private final TrainingProgram program;

  TrainingCheck(Machine machine, PrintStream out, String what, TrainingProgram program) {
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
        Outcome outcome = trip(launched.process().process(), trainer, scratch, reference);
        OptionalInt code =
            launched
                .process()
                .awaitExit(PATIENCE)
                .map(exit -> exit.code())
                .orElse(OptionalInt.empty());
        return code.equals(OptionalInt.of(0))
            ? outcome
            : Outcome.failed(what, "the exit code is " + code + "\n" + outcome.numbers());
      }
    }
  }

  private Outcome trip(
      RunningProcess process, Trainer trainer, Scratch scratch, Trainer reference) {
    Timing timing = new Timing();
    CheckpointedProcess suspended = timing.of("suspend", process::suspend);
    String members = Members.text(suspended);
    out.println("  suspended: " + members);
    ProcessImage image =
        timing.of("dump", () -> suspended.dump(scratch.resolve("image"), WITH_FORKED_LOADERS));
    // Counted after the dump, because the CPU threads run until then.
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
