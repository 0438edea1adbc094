package dev.gpuprocess.examples.verification;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.examples.demo.Scratch;
import dev.gpuprocess.fixtures.Job;
import java.io.PrintStream;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * A check of a launcher, CUDA processes on all GPUs, and processes that send them messages. The
 * tree is dumped and restored several times under that traffic: no message may be lost, no number
 * on a GPU may be wrong, and the GPU memory must be unchanged.
 */
final class TrafficCheck {

  private static final int LOADERS = 4;
  private static final int CYCLES = 3;

  private TrafficCheck() {}

  static Outcome run(Machine machine, PrintStream out, int members, int mebibytes) {
    GpuCheckpoints checkpoints = machine.checkpoints();
    int gpus = checkpoints.gpus().gpus().map(all -> all.size()).orElse(1);
    String what = "%s processes on %s GPU%s".formatted(members, gpus, gpus == 1 ? "" : "s");
    try (Scratch scratch = Scratch.create();
        Job tree =
            machine.on(Job.launch(members, gpus, LOADERS, mebibytes)).notOurChild().start()) {
      Timing timing = new Timing();
      String before = memory(tree, members);
      Job.Work began = tree.work();
      String found = "";
      for (int cycle = 1; cycle <= CYCLES; cycle++) {
        timing = new Timing();
        CheckpointedProcess suspended =
            timing.of("suspend", () -> checkpoints.process(tree.pid()).suspend());
        found = Members.text(suspended);
        String name = "image-" + cycle;
        ProcessImage image = timing.of("dump", () -> suspended.dump(scratch.resolve(name)));
        CheckpointedProcess restored = timing.of("criu restore", image::restore);
        timing.of("resume", restored::resume);
        out.println("  " + cycle + ": " + timing);
        tree.work();
      }
      String after = memory(tree, members);
      Job.Work ended = tree.work();
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
          : Outcome.failed(what, "before: " + before + "\n" + numbers);
    }
  }

  private static String memory(Job tree, int members) {
    return IntStream.range(0, members).mapToObj(tree::verify).collect(Collectors.joining(", "));
  }
}
