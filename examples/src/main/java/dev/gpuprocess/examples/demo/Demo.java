package dev.gpuprocess.examples.demo;

import dev.gpuprocess.error.GpuCheckpointException;
import java.io.PrintStream;
import java.util.List;
import java.util.Locale;

/**
 * Shows the main job step by step: {@code Demo [--simulated]}. Uses the GPU of this machine where
 * it can be used, else a simulated one. The exit code is 0 only if the counter went on where it
 * was.
 */
public final class Demo {

  private Demo() {}

  /**
   * Runs the demo and ends the JVM.
   *
   * @param args nothing, or {@code --simulated}
   */
  public static void main(String[] args) {
    List<String> options = List.of(args);
    if (!options.isEmpty() && !options.equals(List.of("--simulated"))) {
      System.err.println("usage: Demo [--simulated]");
      System.exit(2);
    }
    System.exit(run(!options.isEmpty(), System.out));
  }

  /** Runs the demo; gives the exit code. */
  static int run(boolean simulated, PrintStream out) {
    long began = System.nanoTime();
    out.println("A CUDA process leaves its GPU, goes to disk, and comes back.");
    out.println();
    try (Machine machine = simulated ? Machine.simulated("as asked") : Machine.best()) {
      Progress progress = new Progress(out, machine);
      progress.say("GPU", machine.toString());
      progress.say("CRIU", machine.checkpoints().criu().version().toString());
      progress.say("system", System.getProperty("os.version") + ", Java " + Runtime.version());
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
      return result.wentOn() ? 0 : 1;
    } catch (GpuCheckpointException e) {
      out.println();
      out.println("main job failed: " + e.getMessage());
      return 1;
    }
  }
}
