package dev.gpuprocess.examples.verification;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.examples.demo.Progress;
import dev.gpuprocess.examples.demo.Scratch;
import dev.gpuprocess.fixtures.Pattern;

/** Much GPU memory with a known pattern goes to disk and back, and every byte is looked at. */
final class PatternCheck {

  private PatternCheck() {}

  static Outcome run(Machine machine, int mebibytes, Progress progress) {
    String what = "pattern, " + mebibytes + " MiB";
    GpuCheckpoints checkpoints = machine.checkpoints().toBuilder().listener(progress).build();
    try (Scratch scratch = Scratch.create();
        Pattern pattern = machine.on(Pattern.launch(mebibytes)).start()) {
      String before = pattern.verify();
      RunningProcess resumed = checkpoints.process(pattern.pid()).suspend().resume();
      String between = pattern.verify();
      progress.say("suspend, resume", between);
      RunningProcess again = resumed.suspend().dump(scratch.resolve("image")).restore().resume();
      String after = pattern.verify();
      progress.say("dump, restore", after);
      String numbers =
          "%s after resume, %s after restore%n%s"
              .formatted(between, after, Figures.ofLastTrip(again.steps()));
      boolean right = before.startsWith("ok ") && between.equals(before) && after.equals(before);
      return right ? Outcome.passed(what, numbers) : Outcome.failed(what, numbers);
    }
  }
}
