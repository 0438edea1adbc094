package dev.gpuprocess.criu;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.LaunchedProcess;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.options.LaunchOptions;
import java.nio.file.Path;
import java.time.Duration;

/** Launches a program with fewer descriptors than that needs; a JVM of its own. */
final class DescriptorlessLaunch {

  /** Before how many launches failed. */
  static final String REFUSED = "refused ";

  /** More than a launch needs. */
  private static final int ENOUGH = 100;

  private static final Duration PATIENCE = Duration.ofSeconds(30);

  private DescriptorlessLaunch() {}

  /**
   * Prints how many launches failed, or what was wrong.
   *
   * @param args a directory
   */
  public static void main(String[] args) {
    try (SimulatedDriver machine = SimulatedDriver.create()) {
      GpuCheckpoints checkpoints =
          GpuCheckpoints.builder()
              .cuda(machine.directory())
              .stateDirectory(Path.of(args[0]).resolve("state"))
              .build();
      // Installs the programs and initialises the classes.
      end(checkpoints.launch(sleep()));
      System.out.println(REFUSED + refused(checkpoints));
    }
  }

  private static LaunchOptions sleep() {
    return LaunchOptions.builder("sleep", "1000").build();
  }

  private static void end(LaunchedProcess launched) {
    if (launched.end(PATIENCE).isEmpty()) {
      throw new AssertionError(launched + " is in an image");
    }
  }

  private static int refused(GpuCheckpoints checkpoints) {
    for (int free = 0; free < ENOUGH; free++) {
      LaunchedProcess launched = null;
      GpuCheckpointException failure = null;
      try (Hoard all = new Hoard(free)) {
        launched = checkpoints.launch(sleep());
      } catch (GpuCheckpointException e) {
        failure = e;
      }
      if (launched != null) {
        end(launched);
      }
      if (!Polling.until(PATIENCE, DescriptorlessLaunch::hasNoChild)) {
        throw new AssertionError("with " + free + " descriptors a process is left", failure);
      }
      if (launched != null) {
        return free;
      }
    }
    throw new AssertionError("the launch failed with " + ENOUGH + " descriptors");
  }

  /** Zombies are children, too. */
  private static boolean hasNoChild() {
    return ProcessHandle.current().children().findAny().isEmpty();
  }
}
