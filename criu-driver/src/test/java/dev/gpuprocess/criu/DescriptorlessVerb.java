package dev.gpuprocess.criu;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.options.DumpOptions;
import java.nio.file.Path;

/**
 * Suspends and snapshots a process with fewer descriptors than that needs; a JVM of its own, whose
 * classes are in directories.
 */
final class DescriptorlessVerb {

  /** Before how many verbs failed. */
  static final String REFUSED = "refused ";

  /** More than a verb needs. */
  private static final int ENOUGH = 100;

  private DescriptorlessVerb() {}

  private interface Verb {
    void run(RunningProcess process, int attempt);
  }

  /**
   * Prints how many verbs failed, or what was wrong.
   *
   * @param args a directory
   */
  public static void main(String[] args) {
    Path directory = Path.of(args[0]);
    try (SimulatedDriver machine = SimulatedDriver.create();
        Counter counter = Counter.start(machine)) {
      GpuCheckpoints checkpoints =
          GpuCheckpoints.builder()
              .cuda(machine.directory())
              .stateDirectory(directory.resolve("state"))
              .build();
      Path images = directory.resolve("images");
      int refused =
          refused(checkpoints, counter, (process, attempt) -> process.suspend().resume())
              + refused(
                  checkpoints,
                  counter,
                  (process, attempt) ->
                      process.snapshot(
                          images.resolve(Integer.toString(attempt)), DumpOptions.ofDefaults()));
      System.out.println(REFUSED + refused);
    }
  }

  private static int refused(GpuCheckpoints checkpoints, Counter counter, Verb verb) {
    for (int free = 0; free < ENOUGH; free++) {
      RunningProcess process = checkpoints.process(counter.pid());
      Throwable failure = null;
      try (Hoard all = new Hoard(free)) {
        verb.run(process, free);
      } catch (Throwable e) {
        failure = e;
      }
      if (failure != null && !(failure instanceof GpuCheckpointException)) {
        throw new AssertionError("with " + free + " descriptors", failure);
      }
      ProcessState state = checkpoints.inspect(counter.pid()).state();
      if (state != ProcessState.RUNNING) {
        throw new AssertionError("with " + free + " descriptors it is " + state, failure);
      }
      int unused = counter.increment();
      if (failure == null) {
        return free;
      }
    }
    throw new AssertionError("the verb failed with " + ENOUGH + " descriptors");
  }
}
