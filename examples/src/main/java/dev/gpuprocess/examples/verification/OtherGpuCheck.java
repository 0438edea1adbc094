package dev.gpuprocess.examples.verification;

import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.cuda.Gpu;
import dev.gpuprocess.cuda.GpuMap;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.examples.demo.Scratch;
import dev.gpuprocess.options.ResumeOptions;
import java.io.PrintStream;
import java.util.List;
import java.util.Set;

/** A check that a training run moves to another GPU and back with unchanged losses. */
final class OtherGpuCheck {

  static final String WHAT = "to the other GPU and back";

  private OtherGpuCheck() {}

  static Outcome run(Machine machine, PrintStream out, TrainingProgram program) {
    List<GpuUuid> gpus =
        machine.checkpoints().gpus().gpus().orElse(List.of()).stream().map(Gpu::uuid).toList();
    try (Scratch scratch = Scratch.create();
        Trainer reference = Trainer.start(scratch, "undisturbed", program);
        Trainer trainer = Trainer.start(scratch, "moved", program)) {
      Timing timing = new Timing();
      trainer.awaitStep(program.steps() / 4);
      RunningProcess process = machine.checkpoints().process(trainer.pid());
      Set<GpuUuid> first = where(process);
      GpuUuid home = first.iterator().next();
      GpuUuid other = gpus.stream().filter(gpu -> !gpu.equals(home)).findFirst().orElseThrow();
      RunningProcess moved = timing.of("there", () -> move(process, other));
      Set<GpuUuid> second = where(machine.checkpoints().process(trainer.pid()));
      out.println("  from " + first + " to " + second);
      trainer.awaitStep(program.steps() / 2);
      timing.of("back", () -> move(moved, home));
      Set<GpuUuid> third = where(machine.checkpoints().process(trainer.pid()));
      List<String> lines = trainer.awaitEnd();
      boolean right =
          first.equals(Set.of(home))
              && second.equals(Set.of(other))
              && third.equals(first)
              && lines.equals(reference.awaitEnd());
      String numbers = "from %s to %s to %s: %s".formatted(first, second, third, timing);
      return right
          ? Outcome.passed(
              WHAT, program.steps() + " losses and the sum equal an undisturbed run's\n" + numbers)
          : Outcome.failed(WHAT, "losses or GPUs differ\n" + numbers);
    }
  }

  private static RunningProcess move(RunningProcess process, GpuUuid target) {
    return process.suspend().resume(ResumeOptions.builder().gpus(GpuMap.to(target)).build());
  }

  private static Set<GpuUuid> where(RunningProcess process) {
    return process.members().get(0).gpuBytes().keySet();
  }
}
