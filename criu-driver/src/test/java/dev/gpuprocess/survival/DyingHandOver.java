package dev.gpuprocess.survival;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.progress.StepListener;
import java.nio.file.Path;
import java.util.concurrent.locks.LockSupport;

/**
 * Hands memory of a process over in a JVM of its own, and is killed after so many microseconds, at
 * the latest before CRIU begins.
 */
final class DyingHandOver {

  private DyingHandOver() {}

  /**
   * Runs until it kills itself.
   *
   * @param args machine, state directory, pid, image, microseconds
   */
  public static void main(String[] args) {
    long delay = Long.parseLong(args[4]) * 1000;
    StepListener killer =
        new StepListener() {
          @Override
          public void started(String name, int pid) {
            if (name.equals("hand over")) {
              Thread thread = new Thread(() -> killAfter(delay));
              thread.setDaemon(true);
              thread.start();
            } else if (name.equals("dump")) {
              Signals.killSelf();
            }
          }
        };
    CheckpointedProcess suspended =
        SimulatedMachine.checkpoints(Path.of(args[0]), Path.of(args[1]), new FaultPoints())
            .toBuilder()
            .listener(killer)
            .build()
            .process(Long.parseLong(args[2]))
            .suspend();
    suspended.dump(Path.of(args[3]));
  }

  private static void killAfter(long nanos) {
    long end = System.nanoTime() + nanos;
    while (System.nanoTime() < end) {
      LockSupport.parkNanos(end - System.nanoTime());
    }
    Signals.killSelf();
  }
}
