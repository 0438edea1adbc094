package dev.gpuprocess.examples.verification;

import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.examples.demo.Progress;
import java.io.PrintStream;
import java.util.List;

/**
 * A program that checks on a real GPU that nothing is lost: with a stopped process, a kernel that
 * outlasts the lock, a process killed in the middle of a checkpoint, a full GPU, and many cycles.
 * It prints a table; the exit code is 0 only if nothing failed. It needs a JRE, CRIU and root.
 */
public final class GpuSurvival {

  private GpuSurvival() {}

  /**
   * Runs the checks and exits.
   *
   * @param args the number of cycles of a small process and of a large one, by default 1000 and 20;
   *     {@code --simulated} to try the program itself; {@code --only-cycles}
   */
  public static void main(String[] args) {
    List<String> words = List.of(args);
    boolean simulated = words.contains("--simulated");
    List<String> cycles = words.stream().filter(word -> !word.startsWith("--")).toList();
    int small = cycles.isEmpty() ? 1000 : Integer.parseInt(cycles.get(0));
    int large = cycles.size() < 2 ? 20 : Integer.parseInt(cycles.get(1));
    boolean onlyCycles = words.contains("--only-cycles");
    try (Machine machine = simulated ? Machine.simulated("as asked") : Machine.real()) {
      System.exit(run(machine, small, large, onlyCycles, System.out));
    }
  }

  private static int run(
      Machine machine, int small, int large, boolean onlyCycles, PrintStream out) {
    Checks checks = new Checks(out);
    if (!onlyCycles) {
      checks.run("stopped target", () -> StuckChecks.stopped(machine));
      checks.run("busy GPU", () -> StuckChecks.busy(machine));
      checks.run("killed in checkpoint", () -> StuckChecks.killed(machine));
      checks.run(
          "no room on the GPU", () -> MemoryChecks.tooLittle(machine, new Progress(out, machine)));
      checks.run(
          "two resumes at once",
          () -> MemoryChecks.twoResumes(machine, new Progress(out, machine)));
    }
    if (small > 0) {
      checks.run(small + " small cycles", () -> CycleCheck.small(machine, small));
    }
    if (large > 0) {
      checks.run(large + " large cycles", () -> CycleCheck.large(machine, large));
    }
    return checks.finish(machine.headline("gpu-survival"));
  }
}
