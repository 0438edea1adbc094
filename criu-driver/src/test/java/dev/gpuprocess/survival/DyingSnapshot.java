package dev.gpuprocess.survival;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.HostMemory;
import dev.gpuprocess.report.StepListener;
import java.nio.file.Path;
import java.util.concurrent.locks.LockSupport;

/** Makes a snapshot in a JVM of its own, and is killed some microseconds after a step begins. */
final class DyingSnapshot {

  private DyingSnapshot() {}

  /**
   * Runs until it kills itself.
   *
   * @param args machine, state directory, pid, image, directory for host memory, step, microseconds
   */
  public static void main(String[] args) {
    long delay = Long.parseLong(args[6]) * 1000;
    StepListener killer =
        new StepListener() {
          @Override
          public void started(String name, int pid) {
            if (name.equals(args[5])) {
              Thread thread = new Thread(() -> killAfter(delay));
              thread.setDaemon(true);
              thread.start();
            }
          }
        };
    GpuCheckpoints checkpoints =
        SimulatedMachine.checkpoints(Path.of(args[0]), Path.of(args[1]), new FaultPoints())
            .toBuilder()
            .listener(killer)
            .hostMemory(HostMemory.in(Path.of(args[4])))
            .build();
    long pid = Long.parseLong(args[2]);
    Path image = Path.of(args[3]);
    DumpOptions options = DumpOptions.ofDefaults();
    ProcessImage unused = checkpoints.process(pid).snapshot(image, options);
    Signals.killSelf();
  }

  private static void killAfter(long nanos) {
    long end = System.nanoTime() + nanos;
    while (System.nanoTime() < end) {
      LockSupport.parkNanos(end - System.nanoTime());
    }
    Signals.killSelf();
  }
}
