package dev.gpuprocess.examples.slurm;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.LaunchedProcess;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.NotCudaProcessException;
import dev.gpuprocess.error.RetryLaterException;
import dev.gpuprocess.options.DumpOptions;
import java.nio.file.Path;
import java.time.Duration;
import java.util.function.Consumer;

/**
 * Checks a launched process once, as soon as it uses CUDA, so that its user learns at the start and
 * not in the grace of a preemption that it cannot be dumped.
 */
public final class FirstCheck {

  private static final Duration SHORTEST = Duration.ofMillis(500);
  private static final Duration LONGEST = Duration.ofSeconds(30);

  private FirstCheck() {}

  /**
   * Waits until the process uses CUDA, and checks it. Returns when the process has ended or is in
   * an image at the latest.
   *
   * @param image where an image would be
   * @param options of the dump
   * @param warning receives a sentence if a dump would fail
   */
  public static void run(
      GpuCheckpoints machine,
      LaunchedProcess process,
      Path image,
      DumpOptions options,
      Consumer<String> warning) {
    Duration pause = SHORTEST;
    while (process.awaitExit(pause).isEmpty() && !process.isDumped()) {
      try {
        if (machine.inspect(process.identity().pid()) instanceof RunningProcess running) {
          running.checkDump(image, options);
          return;
        }
      } catch (NotCudaProcessException | NoSuchProcessException | RetryLaterException e) {
        // not yet, or another verb works on it
      } catch (GpuCheckpointException e) {
        warning.accept("the command cannot be dumped as it is now: " + e.getMessage());
        return;
      }
      pause = pause.multipliedBy(2).compareTo(LONGEST) > 0 ? LONGEST : pause.multipliedBy(2);
    }
  }

  /** Runs the check on a daemon thread. */
  public static void begin(
      GpuCheckpoints machine,
      LaunchedProcess process,
      Path image,
      DumpOptions options,
      Consumer<String> warning) {
    Thread thread =
        new Thread(() -> run(machine, process, image, options, warning), "gpuprocess first check");
    thread.setDaemon(true);
    thread.start();
  }
}
