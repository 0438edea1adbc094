package dev.gpuprocess.examples.verification;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.PoisonedProcessException;
import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.cuda.Gpu;
import dev.gpuprocess.cuda.GpuInventory;
import dev.gpuprocess.error.InsufficientGpuMemoryException;
import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.examples.demo.Progress;
import dev.gpuprocess.examples.demo.Scratch;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.options.ResumeOptions;
import java.time.Duration;
import java.util.List;
import java.util.Optional;

/**
 * NVIDIA/cuda-checkpoint issue 44: a restore without room loses the process for ever. Ours looks
 * first; and where the look is fooled, the insurance brings the process back.
 */
final class RoomCheck {

  private static final String WHAT = "no room on the GPU";
  private static final long LEAVE_FREE_MIB = 2048;

  private RoomCheck() {}

  static Outcome run(Machine machine, Progress progress) {
    int mebibytes = machine.isSimulated() ? 2560 : 8192;
    GpuCheckpoints checkpoints = machine.checkpoints();
    try (Scratch scratch = Scratch.create();
        Pattern pattern = machine.on(Pattern.launch(mebibytes)).start()) {
      CheckpointedProcess suspended = checkpoints.process(pattern.pid()).suspend();
      String refusal;
      try (Pattern filler = filler(machine)) {
        progress.say(
            "filler", "process " + filler.pid() + ", " + filler.freeMemory() + " bytes left");
        refusal = StuckChecks.message(InsufficientGpuMemoryException.class, suspended::resume);
      }
      progress.say("refused", refusal);
      suspended.resume(ResumeOptions.builder().waitForMemory(Duration.ofSeconds(30)).build());
      String afterWaiting = pattern.verify();
      progress.say("room again", afterWaiting);

      CheckpointedProcess again = checkpoints.process(pattern.pid()).suspend();
      CudaResult raw;
      PoisonedProcessException poisoned;
      try (Pattern filler = filler(machine)) {
        progress.say("filler", "process " + filler.pid());
        poisoned = poison(checkpoints, again, scratch);
        raw = poisoned.failure().cudaResult();
      }
      StuckChecks.await(() -> roomFor(checkpoints, mebibytes));
      CudaResult later = checkpoints.cuda().restore((int) pattern.pid(), List.of());
      progress.say("raw restore", raw + ", and with room again " + later);
      poisoned.process().replaceWith(checkpoints.open(scratch.resolve("image"))).resume();
      String fromImage = pattern.verify();
      String numbers =
          "%s%nthen with room: %s%nraw call: %s, with room again %s; back from its image: %s"
              .formatted(refusal, afterWaiting, raw, later, fromImage);
      return StuckChecks.outcome(
          WHAT,
          !refusal.isEmpty()
              && afterWaiting.startsWith("ok ")
              && !later.ok()
              && fromImage.equals(afterWaiting),
          numbers);
    }
  }

  /** Takes nearly all of the GPU that is free. */
  private static Pattern filler(Machine machine) {
    Pattern filler = machine.on(Pattern.launch(1)).start();
    filler.hold((int) ((filler.freeMemory() >> 20) - LEAVE_FREE_MIB));
    return filler;
  }

  /** What happens to those who do not look: our own look is blinded for this. */
  private static PoisonedProcessException poison(
      GpuCheckpoints checkpoints, CheckpointedProcess healthy, Scratch scratch) {
    GpuCheckpoints blind = checkpoints.toBuilder().cuda(checkpoints.cuda(), new Blind()).build();
    CheckpointedProcess process = (CheckpointedProcess) blind.inspect(healthy.pid());
    try {
      process.resume(ResumeOptions.builder().fallbackImage(scratch.resolve("image")).build());
    } catch (PoisonedProcessException e) {
      return e;
    }
    throw new IllegalStateException("the restore found room where there was none");
  }

  private static boolean roomFor(GpuCheckpoints checkpoints, int mebibytes) {
    return checkpoints.gpus().gpus().orElse(List.of()).stream()
        .anyMatch(gpu -> gpu.freeBytes() >> 20 > mebibytes + LEAVE_FREE_MIB / 2);
  }

  /** Knows nothing of the GPUs. */
  private static final class Blind implements GpuInventory {
    @Override
    public Optional<List<Gpu>> gpus() {
      return Optional.empty();
    }

    @Override
    public Optional<String> driverVersion() {
      return Optional.empty();
    }
  }
}
