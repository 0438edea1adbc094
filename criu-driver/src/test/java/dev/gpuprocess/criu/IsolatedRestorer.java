package dev.gpuprocess.criu;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.report.Step;
import dev.gpuprocess.report.StepListener;
import java.nio.file.Path;

/** A controller that dies when CRIU has restored a process, and nothing is noted of it yet. */
final class IsolatedRestorer {

  static final int HALTED = 77;

  private IsolatedRestorer() {}

  /**
   * Restores and dies.
   *
   * @param args the machine, the state directory, the image
   */
  public static void main(String[] args) {
    Path machine = Path.of(args[0]);
    StepListener dying =
        new StepListener() {
          @Override
          public void finished(Step step) {
            if (step.name().equals("criu restore")) {
              Runtime.getRuntime().halt(HALTED);
            }
          }
        };
    GpuCheckpoints.builder()
        .cuda(machine)
        .stateDirectory(Path.of(args[1]))
        .listener(dying)
        .build()
        .open(Path.of(args[2]))
        .restore();
  }
}
