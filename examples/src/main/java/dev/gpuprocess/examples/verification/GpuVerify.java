package dev.gpuprocess.examples.verification;

import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.examples.demo.MainJob;
import dev.gpuprocess.examples.demo.Progress;
import dev.gpuprocess.examples.verification.Trainer.Loaders;
import java.io.PrintStream;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/**
 * Proves the library on a machine with an NVIDIA GPU: the driver contract, the counter, a pattern
 * of a few GiB, and a PyTorch trainer, with and without data loaders. Prints a table; the exit code
 * is 0 only if nothing failed. Needs a JRE, CRIU, root, and PyTorch for the last rows.
 *
 * <p>With {@code --simulated} it runs on a simulated GPU, to try the program itself; with {@code
 * --only-jobs} it leaves the driver contract out.
 */
public final class GpuVerify {

  private static final int PATTERN_MIB = 8192;
  private static final int TRAINER_MIB = 4096;
  private static final int SIMULATED_PATTERN_MIB = 256;

  private final Machine machine;
  private final PrintStream out;
  private final Checks checks;

  GpuVerify(Machine machine, PrintStream out) {
    this.machine = machine;
    this.out = out;
    this.checks = new Checks(out);
    out.println(machine.headline("gpu-verify"));
  }

  /**
   * Runs all checks and ends the JVM.
   *
   * @param args any of {@code --simulated} and {@code --only-jobs}
   */
  public static void main(String[] args) {
    Set<String> options = new HashSet<>(List.of(args));
    boolean simulated = options.remove("--simulated");
    boolean onlyJobs = options.remove("--only-jobs");
    if (!options.isEmpty()) {
      System.err.println("usage: GpuVerify [--simulated] [--only-jobs]");
      System.exit(2);
    }
    System.exit(run(simulated, onlyJobs, System.out));
  }

  private static int run(boolean simulated, boolean onlyJobs, PrintStream out) {
    try (Machine machine = simulated ? Machine.simulated("as asked") : Machine.real()) {
      GpuVerify verify = new GpuVerify(machine, out);
      return onlyJobs ? verify.runJobs() : verify.run();
    }
  }

  /** Runs all checks; gives the exit code. */
  int run() {
    checks.run("driver contract", () -> ContractCheck.run(machine, out));
    return runJobs();
  }

  /** Runs all but the driver contract; gives the exit code. */
  int runJobs() {
    int mebibytes = machine.isSimulated() ? SIMULATED_PATTERN_MIB : PATTERN_MIB;
    checks.run("counter", this::counter);
    checks.run("pattern", () -> PatternCheck.run(machine, mebibytes, new Progress(out, machine)));
    for (Loaders loaders : Loaders.values()) {
      checks.run(
          TrainerCheck.name(loaders),
          () -> new TrainerCheck(machine, TRAINER_MIB, loaders, new Progress(out, machine)).run());
    }
    return checks.finish(machine.headline("gpu-verify"));
  }

  private Outcome counter() {
    MainJob.Result result = MainJob.run(machine, new Progress(out, machine));
    String numbers =
        "%s -> %s%n%s"
            .formatted(result.before(), result.after(), Figures.ofLastTrip(result.steps()));
    return result.wentOn()
        ? Outcome.passed("counter", numbers)
        : Outcome.failed("counter", numbers);
  }
}
