package dev.gpuprocess.survival;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.Step;
import dev.gpuprocess.report.StepListener;
import java.nio.file.Path;
import java.util.concurrent.locks.LockSupport;

/**
 * Suspends and dumps a process in a JVM of its own, and is killed so many microseconds after a step
 * begins, at the latest when CRIU may end the process.
 */
final class DyingDump {

  /** The step at which CRIU may end the process; a dump that is to die there stops CRIU first. */
  static final String SEAL = "seal";

  private DyingDump() {}

  /**
   * Runs until it kills itself.
   *
   * @param args machine, state directory, pid, image, step, microseconds; the step may be the
   *     number of a moment, as {@link FaultPoints} counts them
   */
  public static void main(String[] args) {
    long delay = Long.parseLong(args[5]) * 1000;
    FaultPoints moments = moments(args[4]);
    StepListener killer =
        new StepListener() {
          @Override
          public void started(String name, int pid) {
            moments.started(name, pid);
            if (name.equals(SEAL)) {
              if (args[4].equals(SEAL)) {
                stopCriu(pid);
              }
              Signals.killSelf();
            } else if (name.equals(args[4])) {
              if (delay == 0) {
                Signals.killSelf();
              }
              Thread thread = new Thread(() -> killAfter(delay));
              thread.setDaemon(true);
              thread.start();
            }
          }

          @Override
          public void finished(Step step) {
            moments.finished(step);
          }
        };
    CheckpointedProcess suspended =
        SimulatedMachine.checkpoints(Path.of(args[0]), Path.of(args[1]), moments).toBuilder()
            .listener(killer)
            .build()
            .process(Long.parseLong(args[2]))
            .suspend();
    suspended.dump(Path.of(args[3]));
  }

  private static void stopCriu(int pid) {
    ProcessIdentity criu = Signals.criuOf(pid).orElseThrow();
    Signals.send(criu, Signals.STOP);
    while (Processes.stat(criu).filter(ProcStat::isStopped).isEmpty()) {
      Thread.onSpinWait();
    }
  }

  private static FaultPoints moments(String when) {
    FaultPoints moments = new FaultPoints();
    return when.matches("[0-9]+") ? moments.at(Integer.parseInt(when), Signals::killSelf) : moments;
  }

  private static void killAfter(long nanos) {
    long end = System.nanoTime() + nanos;
    while (System.nanoTime() < end) {
      LockSupport.parkNanos(end - System.nanoTime());
    }
    Signals.killSelf();
  }
}
