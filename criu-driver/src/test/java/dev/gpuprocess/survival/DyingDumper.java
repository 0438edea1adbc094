package dev.gpuprocess.survival;

import dev.gpuprocess.report.StepListener;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** Begins a dump in a JVM of its own, and is killed when CRIU has written half of the image. */
final class DyingDumper {

  private DyingDumper() {}

  /**
   * Runs until it kills itself.
   *
   * @param args machine, state directory, pid, and the image as a user names it
   */
  public static void main(String[] args) {
    SimulatedMachine.checkpoints(Path.of(args[0]), Path.of(args[1]), new FaultPoints()).toBuilder()
        .listener(
            new StepListener() {
              @Override
              public void started(String name, int pid) {
                if (name.equals("seal")) {
                  Signals.killSelf();
                }
              }
            })
        .build()
        .process(Long.parseLong(args[2]))
        .suspend()
        .dump(Path.of(args[3]));
  }

  /** Starts one and waits for its death. */
  static void run(SimulatedMachine machine, Subject subject, String image)
      throws InterruptedException {
    Process dumper =
        ChildJvm.start(
            DyingDumper.class,
            machine.temporary(),
            Map.of(),
            List.of(
                machine.driver.directory().toString(),
                machine.state().toString(),
                Integer.toString(subject.pid()),
                image));
    try {
      if (!dumper.waitFor(180, TimeUnit.SECONDS) || dumper.exitValue() != 128 + Signals.KILL) {
        throw new IllegalStateException("the dumper did not die as it should");
      }
    } finally {
      dumper.destroyForcibly();
    }
  }
}
