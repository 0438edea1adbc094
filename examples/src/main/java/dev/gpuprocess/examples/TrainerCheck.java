package dev.gpuprocess.examples;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.RunningProcess;
import java.util.List;
import java.util.Optional;

/**
 * A PyTorch trainer is dumped in the middle of its run, restored, and must go on from the same step
 * with the losses that an undisturbed run has.
 */
final class TrainerCheck {

  private static final String WHAT = "PyTorch trainer";
  private static final int STEPS = 200;

  private TrainerCheck() {}

  static Outcome run(Machine machine, int mebibytes, Progress progress) {
    if (machine.isSimulated()) {
      return Outcome.skipped(WHAT, "PyTorch needs a real GPU");
    }
    try (Scratch scratch = Scratch.create()) {
      Optional<String> missing = Trainer.whyMissing(scratch);
      if (missing.isPresent()) {
        return Outcome.skipped(WHAT, missing.get());
      }
      List<String> undisturbed;
      try (Trainer reference = Trainer.start(scratch, "undisturbed", STEPS, mebibytes)) {
        undisturbed = reference.awaitEnd();
      }
      progress.say("undisturbed", "step " + undisturbed.get(STEPS - 1) + ", the last");
      try (Trainer trainer = Trainer.start(scratch, "disturbed", STEPS, mebibytes)) {
        return disturb(
            machine.checkpoints().with(progress), trainer, scratch, undisturbed, progress);
      }
    }
  }

  private static Outcome disturb(
      GpuCheckpoints checkpoints,
      Trainer trainer,
      Scratch scratch,
      List<String> undisturbed,
      Progress progress) {
    trainer.awaitStep(STEPS / 3);
    CheckpointedProcess suspended = checkpoints.process(trainer.pid()).suspend();
    ProcessImage image = suspended.dump(scratch.resolve("image"));
    // Counted now that the process is gone: its CPU threads lived on until then.
    int step = trainer.lines().size();
    progress.say("dumped", "after step " + Trainer.last(trainer.lines()));
    CheckpointedProcess restored = image.restore();
    trainer.restoredAs(restored.identity());
    RunningProcess again = restored.resume();
    List<String> lines = trainer.awaitEnd();
    progress.say("went on", "with step " + lines.get(step));
    String numbers =
        "dumped after step %s%nwent on with step %s%nundisturbed, step %s%n%s"
            .formatted(
                lines.get(step - 1),
                lines.get(step),
                undisturbed.get(step),
                Figures.ofLastTrip(again.steps()));
    return lines.equals(undisturbed)
        ? Outcome.passed(
            WHAT,
            STEPS + " losses and the sum of its memory equal an undisturbed run's\n" + numbers)
        : Outcome.failed(WHAT, "losses differ\n" + numbers);
  }
}
