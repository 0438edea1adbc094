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
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;

/** Checks of resumes for which too little GPU memory is free. */
final class MemoryChecks {

  private static final long LEAVE_FREE_MIB = 2048;
  private static final ResumeOptions WAITING =
      ResumeOptions.builder().waitForMemory(Duration.ofSeconds(30)).build();

  private MemoryChecks() {}

  /**
   * NVIDIA/cuda-checkpoint issue 44: a restore without enough memory loses the process permanently.
   * The library checks the memory first. If that check fails to see the shortage, the process is
   * replaced from its fallback image.
   */
  static Outcome tooLittle(Machine machine, Progress progress) {
    int mebibytes = machine.isSimulated() ? 2560 : 8192;
    GpuCheckpoints checkpoints = machine.checkpoints();
    try (Scratch scratch = Scratch.create();
        Pattern pattern = machine.on(Pattern.launch(mebibytes)).start()) {
      CheckpointedProcess suspended = checkpoints.process(pattern.pid()).suspend();
      String refusal;
      try (Pattern filler = filler(machine)) {
        progress.print(
            "filler", "process " + filler.pid() + ", " + filler.freeMemory() + " bytes left");
        refusal = refusal(suspended);
      }
      progress.print("refused", refusal);
      suspended.resume(WAITING);
      String afterWaiting = pattern.verify();
      progress.print("memory free", afterWaiting);

      CheckpointedProcess again = checkpoints.process(pattern.pid()).suspend();
      CudaResult raw;
      PoisonedProcessException poisoned;
      try (Pattern filler = filler(machine)) {
        progress.print("filler", "process " + filler.pid());
        poisoned = poison(checkpoints, again, scratch);
        raw = poisoned.failure().cudaResult();
      }
      StuckChecks.await(() -> isFree(checkpoints, mebibytes));
      CudaResult later = checkpoints.cuda().restore((int) pattern.pid(), Map.of());
      progress.print("raw restore", raw + ", and with free memory " + later);
      poisoned.process().replaceWith(checkpoints.open(scratch.resolve("image"))).resume();
      String fromImage = pattern.verify();
      String numbers =
          "%s%nthen with room: %s%nraw call: %s, with room again %s; back from its image: %s"
              .formatted(refusal, afterWaiting, raw, later, fromImage);
      return Outcome.of(
          "no room on the GPU",
          !refusal.isEmpty()
              && afterWaiting.startsWith("ok ")
              && !later.ok()
              && fromImage.equals(afterWaiting),
          numbers);
    }
  }

  /** Two processes are resumed at once with memory for one: one is refused, and none is lost. */
  static Outcome twoResumes(Machine machine, Progress progress) {
    int mebibytes = machine.isSimulated() ? 1280 : 4096;
    GpuCheckpoints checkpoints = machine.checkpoints();
    try (Pattern one = machine.on(Pattern.launch(mebibytes)).start();
        Pattern other = machine.on(Pattern.launch(mebibytes)).start()) {
      CheckpointedProcess first = checkpoints.process(one.pid()).suspend();
      CheckpointedProcess second = checkpoints.process(other.pid()).suspend();
      List<String> refusals;
      try (Pattern filler = machine.on(Pattern.launch(1)).start()) {
        // Leaves memory for one and a half of them.
        filler.hold((int) ((filler.freeMemory() >> 20) - mebibytes * 3L / 2 - 512));
        CompletableFuture<String> begun = CompletableFuture.supplyAsync(() -> refusal(first));
        String ours = refusal(second);
        refusals = Stream.of(begun.join(), ours).filter(text -> !text.isEmpty()).toList();
      }
      refusals.forEach(text -> progress.print("refused", text));
      for (Pattern pattern : List.of(one, other)) {
        if (checkpoints.inspect(pattern.pid()) instanceof CheckpointedProcess refused) {
          refused.resume(WAITING);
        }
      }
      String data = one.verify() + ", " + other.verify();
      return Outcome.of(
          "two resumes at once",
          refusals.size() == 1
              && one.verify().startsWith("ok ")
              && other.verify().startsWith("ok "),
          "%s of 2 refused: %s%nthen both came back: %s"
              .formatted(refusals.size(), String.join("; ", refusals), data));
    }
  }

  private static String refusal(CheckpointedProcess process) {
    return StuckChecks.message(InsufficientGpuMemoryException.Reason.NOT_FREE, process::resume);
  }

  /** Starts a process that takes nearly all of the free memory. */
  private static Pattern filler(Machine machine) {
    Pattern filler = machine.on(Pattern.launch(1)).start();
    filler.hold((int) ((filler.freeMemory() >> 20) - LEAVE_FREE_MIB));
    return filler;
  }

  /** Restores without the library's check of the memory, which loses the process. */
  private static PoisonedProcessException poison(
      GpuCheckpoints checkpoints, CheckpointedProcess healthy, Scratch scratch) {
    GpuCheckpoints blind = checkpoints.toBuilder().cuda(checkpoints.cuda(), new Blind()).build();
    CheckpointedProcess process = (CheckpointedProcess) blind.inspect(healthy.pid());
    try {
      process.resume(ResumeOptions.builder().fallbackImage(scratch.resolve("image")).build());
    } catch (PoisonedProcessException e) {
      return e;
    }
    throw new IllegalStateException("the restore succeeded without enough memory");
  }

  private static boolean isFree(GpuCheckpoints checkpoints, int mebibytes) {
    return checkpoints.gpus().gpus().orElse(List.of()).stream()
        .anyMatch(gpu -> gpu.freeBytes() >> 20 > mebibytes + LEAVE_FREE_MIB / 2);
  }

  /** An inventory that reports no memory, so that none is checked. */
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
