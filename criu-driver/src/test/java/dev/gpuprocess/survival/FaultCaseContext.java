package dev.gpuprocess.survival;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.report.ProcessIdentity;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * Where a case plays.
 *
 * @param machine where it happens
 * @param subject the process
 * @param moments told of everything that {@code checkpoints} does
 * @param checkpoints runs the verb
 * @param cancellation cancels a dump
 * @param late the threads that send a signal later
 */
record FaultCaseContext(
    SimulatedMachine machine,
    Subject subject,
    FaultPoints moments,
    GpuCheckpoints checkpoints,
    Cancellation cancellation,
    List<Thread> late) {

  int pid() {
    return subject.pid();
  }

  Path image() {
    return machine.image();
  }

  /** Sends a signal to the process, also if it is half restored. */
  void signal(int signal) {
    ProcessIdentity.of(pid()).filter(this::isSubject).ifPresent(who -> Signals.send(who, signal));
  }

  private boolean isSubject(ProcessIdentity who) {
    return subject.isAlive()
        || ProcFs.stat(who.pid()).map(stat -> ProcFs.isCriu(stat.parent())).orElse(false);
  }

  /** Sends a signal to the process some time later. */
  void signalLater(int micros, int signal) {
    Thread thread =
        new Thread(
            () -> {
              LockSupport.parkNanos(TimeUnit.MICROSECONDS.toNanos(micros));
              signal(signal);
            },
            "signal to the subject");
    thread.setDaemon(true);
    late.add(thread);
    thread.start();
  }

  /** Waits for these signals, which must not come after the case. */
  void awaitLate() throws InterruptedException {
    for (Thread each : late) {
      each.join();
    }
  }

  /** Kills the CRIU that works on the process. */
  void killCriu() {
    Signals.criuOf(pid()).ifPresent(criu -> Signals.send(criu, Signals.KILL));
  }
}
