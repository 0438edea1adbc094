package dev.gpuprocess.examples.verification;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.examples.demo.MainJob;
import dev.gpuprocess.examples.demo.Progress;
import dev.gpuprocess.examples.demo.Scratch;
import dev.gpuprocess.examples.verification.Trainer.Loaders;
import dev.gpuprocess.fixtures.Pattern;
import java.io.PrintStream;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/**
 * A program that checks the library on a machine with an NVIDIA GPU: the driver contract, the
 * counter, a pattern of a few GiB, and a PyTorch trainer, with and without data loaders. It prints
 * a table; the exit code is 0 only if nothing failed. It needs a JRE, CRIU, root, and PyTorch for
 * the last rows.
 *
 * <p>With {@code --simulated} the program itself is tried on a simulated GPU; with {@code
 * --only-jobs} the driver contract is left out.
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
    boolean onlyWorkloads = options.remove("--only-jobs");
    if (!options.isEmpty()) {
      System.err.println("usage: GpuVerify [--simulated] [--only-jobs]");
      System.exit(2);
    }
    System.exit(run(simulated, onlyWorkloads, System.out));
  }

  private static int run(boolean simulated, boolean onlyWorkloads, PrintStream out) {
    try (Machine machine = simulated ? Machine.simulated("as asked") : Machine.real()) {
      GpuVerify verify = new GpuVerify(machine, out);
      return onlyWorkloads ? verify.runWorkloads() : verify.run();
    }
  }

  /** Runs all checks and returns the exit code. */
  int run() {
    checks.run("driver contract", () -> ContractCheck.run(machine, out));
    return runWorkloads();
  }

  /** Runs all checks but the driver contract and returns the exit code. */
  int runWorkloads() {
    checks.run("counter", this::counter);
    checks.run("pattern", this::pattern);
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
    return Outcome.of("counter", result.continued(), numbers);
  }

  /** Much GPU memory goes to disk and back, and every byte is compared. */
  private Outcome pattern() {
    int mebibytes = machine.isSimulated() ? SIMULATED_PATTERN_MIB : PATTERN_MIB;
    Progress progress = new Progress(out, machine);
    GpuCheckpoints checkpoints = machine.checkpoints().toBuilder().listener(progress).build();
    try (Scratch scratch = Scratch.create();
        Pattern pattern = machine.on(Pattern.launch(mebibytes)).start()) {
      String before = pattern.verify();
      RunningProcess resumed = checkpoints.process(pattern.pid()).suspend().resume();
      String between = pattern.verify();
      progress.print("suspend, resume", between);
      RunningProcess again = resumed.suspend().dump(scratch.resolve("image")).restore().resume();
      String after = pattern.verify();
      progress.print("dump, restore", after);
      String numbers =
          "%s after resume, %s after restore%n%s"
              .formatted(between, after, Figures.ofLastTrip(again.steps()));
      boolean right = before.startsWith("ok ") && between.equals(before) && after.equals(before);
      return Outcome.of("pattern, " + mebibytes + " MiB", right, numbers);
    }
  }
}
