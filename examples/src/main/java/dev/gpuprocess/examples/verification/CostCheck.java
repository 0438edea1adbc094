package dev.gpuprocess.examples.verification;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.fixtures.Job;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;

/** A check of the cost of suspend and resume by the number of processes, at equal total memory. */
final class CostCheck {

  private static final int[] PROCESSES = {1, 2, 4, 8};
  private static final int ROUNDS = 3;

  private final GpuCheckpoints checkpoints;
  private final Machine machine;
  private final PrintStream out;
  private final int mebibytes;

  CostCheck(Machine machine, PrintStream out, int mebibytes) {
    this.machine = machine;
    this.checkpoints = machine.checkpoints();
    this.out = out;
    this.mebibytes = mebibytes;
  }

  Outcome run() {
    String what = "cost, %s MiB in all".formatted(mebibytes);
    List<String> rows = new ArrayList<>();
    rows.add("processes  MiB each  suspend s         resume s          best of " + ROUNDS);
    double first = 0;
    for (int processes : PROCESSES) {
      int each = mebibytes / processes;
      try (Job tree = machine.on(Job.launch(processes, 1, 0, each)).notOurChild().start()) {
        double[] suspend = new double[ROUNDS];
        double[] resume = new double[ROUNDS];
        for (int round = 0; round < ROUNDS; round++) {
          Timing timing = new Timing();
          CheckpointedProcess suspended =
              timing.of("suspend", () -> checkpoints.process(tree.pid()).suspend());
          suspend[round] = timing.last();
          timing.of("resume", suspended::resume);
          resume[round] = timing.last();
        }
        for (int member = 0; member < processes; member++) {
          if (!tree.verify(member).startsWith("ok ")) {
            return Outcome.failed(what, "member " + member + ": " + tree.verify(member));
          }
        }
        double best = least(suspend) + least(resume);
        first = first == 0 ? best : first;
        rows.add(
            String.format(
                Locale.ROOT,
                "%9d  %8d  %-16s  %-16s  %.2f + %.2f, %.2f of one",
                processes,
                each,
                text(suspend),
                text(resume),
                least(suspend),
                least(resume),
                best / first));
        out.println("  " + rows.get(rows.size() - 1));
      }
    }
    return Outcome.passed(what, String.join("\n", rows));
  }

  private static double least(double[] seconds) {
    return Arrays.stream(seconds).min().orElseThrow();
  }

  private static String text(double[] seconds) {
    return Arrays.stream(seconds)
        .mapToObj(each -> String.format(Locale.ROOT, "%.2f", each))
        .collect(Collectors.joining(" "));
  }
}
