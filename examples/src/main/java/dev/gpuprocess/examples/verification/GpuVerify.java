package dev.gpuprocess.examples.verification;

import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.examples.demo.MainJob;
import dev.gpuprocess.examples.demo.Progress;
import dev.gpuprocess.examples.verification.Trainer.Loaders;
import java.io.PrintStream;
import java.util.List;

/**
 * Proves the library on a machine with an NVIDIA GPU: the driver contract, the counter, a pattern
 * of a few GiB, and a PyTorch trainer, with and without data loaders. Prints a table; the exit code
 * is 0 only if nothing failed. Needs a JRE, CRIU, root, and PyTorch for the last rows.
 *
 * <p>With {@code --simulated} it runs on a simulated GPU, to try the program itself.
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
  }

  /**
   * Runs all checks and ends the JVM.
   *
   * @param args nothing, or {@code --simulated}
   */
  public static void main(String[] args) {
    List<String> options = List.of(args);
    if (!options.isEmpty() && !options.equals(List.of("--simulated"))) {
      System.err.println("usage: GpuVerify [--simulated]");
      System.exit(2);
    }
    System.exit(run(!options.isEmpty(), System.out));
  }

  private static int run(boolean simulated, PrintStream out) {
    try (Machine machine = simulated ? Machine.simulated("as asked") : Machine.real()) {
      return new GpuVerify(machine, out).run();
    }
  }

  /** Runs all checks; gives the exit code. */
  int run() {
    out.println(machine.headline("gpu-verify"));
    int mebibytes = machine.isSimulated() ? SIMULATED_PATTERN_MIB : PATTERN_MIB;
    checks.run("driver contract", () -> ContractCheck.run(machine, out));
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
