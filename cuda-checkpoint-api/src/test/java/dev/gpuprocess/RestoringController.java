package dev.gpuprocess;

import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.report.StepListener;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;

/** A controller in a JVM of its own, in the middle of a step. */
final class RestoringController implements AutoCloseable {

  private final Process process;

  private RestoringController(Process process) {
    this.process = process;
  }

  /** Starts one that resumes a checkpointed process, and waits until it begins to restore. */
  static RestoringController resuming(SimulatedDriver machine, Path state, long pid)
      throws IOException {
    return start(machine, state, pid, "restore");
  }

  /** Starts one that suspends a running process, and waits until it begins to checkpoint. */
  static RestoringController suspending(SimulatedDriver machine, Path state, long pid)
      throws IOException {
    return start(machine, state, pid, "checkpoint");
  }

  private static RestoringController start(
      SimulatedDriver machine, Path state, long pid, String step) throws IOException {
    Process process =
        new ProcessBuilder(
                TestJvm.command(
                    RestoringController.class,
                    machine.directory().toString(),
                    state.toString(),
                    Long.toString(pid),
                    step))
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
    RestoringController controller = new RestoringController(process);
    BufferedReader out = process.inputReader();
    if (!step.equals(out.readLine())) {
      controller.close();
      throw new IllegalStateException("the other controller did not begin to " + step);
    }
    return controller;
  }

  /** Prints the step when it has begun. */
  public static void main(String[] args) {
    Path machine = Path.of(args[0]);
    StepListener beginning =
        new StepListener() {
          @Override
          public void started(String name, int pid) {
            if (name.equals(args[3])) {
              System.out.println(name);
            }
          }
        };
    GpuProcess process =
        GpuCheckpoints.builder()
            .cuda(machine)
            .stateDirectory(Path.of(args[1]))
            .listener(beginning)
            .build()
            .inspect(Integer.parseInt(args[2]));
    if (process instanceof CheckpointedProcess suspended) {
      suspended.resume();
    } else if (process instanceof RunningProcess running) {
      running.suspend();
    }
  }

  /** Kills it and waits until the kernel has taken its locks away. */
  @Override
  public void close() throws IOException {
    process.destroyForcibly();
    try {
      if (!process.waitFor(30, TimeUnit.SECONDS)) {
        throw new IllegalStateException("the other controller does not die");
      }
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
    process.getInputStream().close();
  }
}
