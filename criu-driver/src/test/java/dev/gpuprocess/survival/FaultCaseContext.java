package dev.gpuprocess.survival;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.report.ProcessIdentity;
import java.nio.file.Path;

/**
 * Where a case plays.
 *
 * @param machine where it happens
 * @param subject the process
 * @param moments told of everything that {@code checkpoints} does
 * @param checkpoints runs the verb
 * @param cancellation cancels a dump
 */
record FaultCaseContext(
    SimulatedMachine machine,
    Subject subject,
    FaultPoints moments,
    GpuCheckpoints checkpoints,
    Cancellation cancellation) {

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
        || ProcFs.stat(who.pid()).map(stat -> Signals.isCriu(stat.parent())).orElse(false);
  }

  /** Kills the CRIU that works on the process. */
  void killCriu() {
    Signals.criuOf(pid()).ifPresent(criu -> Signals.send(criu, Signals.KILL));
  }
}
