package dev.gpuprocess.examples.demo;

import dev.gpuprocess.error.GpuCheckpointException;
import java.io.PrintStream;
import java.util.List;
import java.util.Locale;

/**
 * {@code Demo [--simulated]}: shows the main job step by step, on the GPU of this machine if it can
 * be used, else on a simulated one. The exit code is 0 only if the counter continued.
 */
public final class Demo {

  private Demo() {}

  /**
   * Runs the demo and exits.
   *
   * @param args empty, or {@code --simulated}
   */
  public static void main(String[] args) {
    List<String> options = List.of(args);
    if (!options.isEmpty() && !options.equals(List.of("--simulated"))) {
      System.err.println("usage: Demo [--simulated]");
      System.exit(2);
    }
    System.exit(run(!options.isEmpty(), System.out));
  }

  /** Runs the demo and returns the exit code. */
  static int run(boolean simulated, PrintStream out) {
    long began = System.nanoTime();
    out.println("A CUDA process leaves its GPU, goes to disk, and comes back.");
    out.println();
    try (Machine machine = simulated ? Machine.simulated("as asked") : Machine.best()) {
      Progress progress = new Progress(out, machine);
      progress.print("GPU", machine.toString());
      progress.print("CRIU", machine.checkpoints().criu().version());
      progress.print("system", System.getProperty("os.version") + ", Java " + Runtime.version());
      MainJob.Result result = MainJob.run(machine, progress);
      out.println();
      progress.table().forEach(out::println);
      out.println();
      out.printf(
          Locale.ROOT,
          "main job: %s -> %s, gpu=%s, %.1f s%n",
          result.before(),
          result.after(),
          machine.kind(),
          (System.nanoTime() - began) / 1e9);
      return result.continued() ? 0 : 1;
    } catch (GpuCheckpointException e) {
      out.println();
      out.println("main job failed: " + e.getMessage());
      return 1;
    }
  }
}
