package dev.gpuprocess.examples.verification;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.error.InsufficientGpuMemoryException;
import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.examples.demo.Progress;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.options.ResumeOptions;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;

/** Two processes, room for one, and two resumes at once: one is refused, and none is lost. */
final class TwoResumesCheck {

  private static final String WHAT = "two resumes at once";

  private TwoResumesCheck() {}

  static Outcome run(Machine machine, Progress progress) {
    int mebibytes = machine.isSimulated() ? 1280 : 4096;
    GpuCheckpoints checkpoints = machine.checkpoints();
    try (Pattern one = machine.on(Pattern.launch(mebibytes)).start();
        Pattern other = machine.on(Pattern.launch(mebibytes)).start()) {
      CheckpointedProcess first = checkpoints.process(one.pid()).suspend();
      CheckpointedProcess second = checkpoints.process(other.pid()).suspend();
      List<String> refusals;
      try (Pattern filler = machine.on(Pattern.launch(1)).start()) {
        // One and a half of them.
        filler.hold((int) ((filler.freeMemory() >> 20) - mebibytes * 3L / 2 - 512));
        CompletableFuture<String> begun = CompletableFuture.supplyAsync(() -> refusal(first));
        String ours = refusal(second);
        refusals = Stream.of(begun.join(), ours).filter(text -> !text.isEmpty()).toList();
      }
      refusals.forEach(text -> progress.say("refused", text));
      ResumeOptions patient = ResumeOptions.builder().waitForMemory(Duration.ofSeconds(30)).build();
      for (Pattern pattern : List.of(one, other)) {
        if (checkpoints.inspect(pattern.pid()) instanceof CheckpointedProcess refused) {
          refused.resume(patient);
        }
      }
      String data = one.verify() + ", " + other.verify();
      return StuckChecks.outcome(
          WHAT,
          refusals.size() == 1
              && one.verify().startsWith("ok ")
              && other.verify().startsWith("ok "),
          "%s of 2 refused: %s%nthen both came back: %s"
              .formatted(refusals.size(), String.join("; ", refusals), data));
    }
  }

  private static String refusal(CheckpointedProcess process) {
    return StuckChecks.message(InsufficientGpuMemoryException.class, process::resume);
  }
}
