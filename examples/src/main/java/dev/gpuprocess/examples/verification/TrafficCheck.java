package dev.gpuprocess.examples.verification;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.examples.demo.Scratch;
import dev.gpuprocess.fixtures.Job;
import java.io.PrintStream;

/**
 * A launcher, CUDA processes on the GPUs that there are, and processes that send them messages are
 * dumped and restored several times under that traffic: no message is lost, no number on a GPU
 * wrong, and all of its memory as it was.
 */
final class TrafficJobCheck {

  private static final int LOADERS = 4;
  private static final int CYCLES = 3;

  private TrafficJobCheck() {}

  static Outcome run(Machine machine, PrintStream out, int members, int mebibytes) {
    GpuCheckpoints checkpoints = machine.checkpoints();
    int gpus = checkpoints.gpus().gpus().map(all -> all.size()).orElse(1);
    String what = "%s processes on %s GPU%s".formatted(members, gpus, gpus == 1 ? "" : "s");
    try (Scratch scratch = Scratch.create();
        Job job = machine.on(Job.launch(members, gpus, LOADERS, mebibytes)).notOurChild().start()) {
      Timing timing = new Timing();
      String before = memory(job, members);
      Job.Work began = job.work();
      String found = "";
      for (int cycle = 1; cycle <= CYCLES; cycle++) {
        timing = new Timing();
        CheckpointedProcess suspended =
            timing.of("suspend", () -> checkpoints.process(job.pid()).suspend());
        found = Members.text(suspended);
        String name = "image-" + cycle;
        ProcessImage image = timing.of("dump", () -> suspended.dump(scratch.resolve(name)));
        CheckpointedProcess restored = timing.of("criu restore", image::restore);
        timing.of("resume", restored::resume);
        out.println("  " + cycle + ": " + timing);
        job.work();
      }
      String after = memory(job, members);
      Job.Work ended = job.work();
      String numbers =
          "%s%n%s%n%s messages and %s numbers added, none lost; the last trip: %s"
              .formatted(
                  found,
                  after,
                  ended.messages() - began.messages(),
                  ended.added() - began.added(),
                  timing);
      boolean right =
          after.equals(before)
              && !after.contains("bad")
              && ended.messages() > began.messages()
              && ended.added() > began.added();
      return right
          ? Outcome.passed(what, CYCLES + " times to disk and back\n" + numbers)
          : Outcome.failed(what, "it was " + before + "\n" + numbers);
    }
  }

  private static String memory(Job job, int members) {
    StringBuilder text = new StringBuilder();
    for (int member = 0; member < members; member++) {
      text.append(member == 0 ? "" : ", ").append(job.verify(member));
    }
    return text.toString();
  }
}
