package dev.gpuprocess.examples.verification;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.examples.demo.Scratch;
import java.io.PrintStream;
import java.util.List;

/**
 * A check of ranks that map each other's GPU memory through NCCL, which drivers below 610 cannot
 * checkpoint: their suspend is refused with a message that names the settings which help, and the
 * run continues to its end with the losses of an undisturbed run.
 */
final class PeerMemoryCheck {

  static final String WHAT = "ranks with peer memory";

  private PeerMemoryCheck() {}

  static Outcome run(Machine machine, PrintStream out, TrainingProgram program) {
    try (Scratch scratch = Scratch.create()) {
      List<String> undisturbed;
      try (Trainer reference = Trainer.start(scratch, "undisturbed", program)) {
        undisturbed = reference.awaitEnd();
      }
      try (Trainer trainer = Trainer.start(scratch, "disturbed", program)) {
        trainer.awaitStep(program.steps() / 3);
        Timing timing = new Timing();
        RunningProcess process = machine.checkpoints().process(trainer.pid());
        String answer = timing.of("answered after", () -> suspendAndResume(process));
        out.println("  " + answer);
        boolean equal = trainer.awaitEnd().equals(undisturbed);
        String numbers = answer + "\n" + timing;
        return equal && answer.contains("NCCL_P2P_DISABLE=1")
            ? Outcome.passed(WHAT, "losses equal an undisturbed run's\n" + numbers)
            : Outcome.failed(WHAT, (equal ? "" : "losses differ\n") + numbers);
      }
    }
  }

  private static String suspendAndResume(RunningProcess process) {
    try (CheckpointedProcess suspended = process.suspend()) {
      return "it was suspended: " + Members.text(suspended);
    } catch (GpuCheckpointException e) {
      return String.valueOf(e.getMessage());
    }
  }
}
