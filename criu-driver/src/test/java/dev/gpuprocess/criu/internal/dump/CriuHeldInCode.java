package dev.gpuprocess.criu.internal.dump;

import dev.gpuprocess.criu.internal.tree.InjectedCode;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.proc.Signals;
import dev.gpuprocess.report.ProcessIdentity;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;

/** Stops the CRIU that dumps a process while the process executes injected code. */
final class CriuHeldInCode {

  private static final long SETTLED_NANOS = 5_000_000;

  private final int pid;
  private volatile boolean over;

  private CriuHeldInCode(int pid) {
    this.pid = pid;
  }

  /**
   * Runs a dump and stops CRIU at such a moment.
   *
   * @param held gets CRIU when it is stopped
   * @return whether the moment was found before the end of the dump
   */
  static boolean during(int pid, Runnable dump, Consumer<ProcessIdentity> held) {
    CriuHeldInCode catcher = new CriuHeldInCode(pid);
    CompletableFuture<Boolean> caught =
        CompletableFuture.supplyAsync(
            () -> {
              Optional<ProcessIdentity> criu = catcher.catchIt();
              criu.ifPresent(held);
              return criu.isPresent();
            });
    try {
      dump.run();
    } finally {
      catcher.over = true;
    }
    return caught.join();
  }

  private Optional<ProcessIdentity> catchIt() {
    while (!over) {
      if (InjectedCode.runsIn(pid)) {
        Optional<ProcessIdentity> criu = tracer();
        if (criu.isPresent() && isHeld(criu.get())) {
          return criu;
        }
      }
    }
    return Optional.empty();
  }

  private Optional<ProcessIdentity> tracer() {
    OptionalInt tracer = ProcFs.tracer(pid);
    return tracer.isPresent() ? ProcessIdentity.of(tracer.getAsInt()) : Optional.empty();
  }

  /** Stops CRIU, and resumes it if the process has left the code. */
  private boolean isHeld(ProcessIdentity criu) {
    try {
      Processes.signal(criu, Signals.SIGSTOP);
      while (criu.isAlive() && Processes.stat(criu).filter(ProcStat::isStopped).isEmpty()) {
        Thread.onSpinWait();
      }
      LockSupport.parkNanos(SETTLED_NANOS);
      if (criu.isAlive() && InjectedCode.runsIn(pid)) {
        return true;
      }
      Processes.signal(criu, Signals.SIGCONT);
      return false;
    } catch (NativeCallException e) {
      throw new IllegalStateException(e);
    }
  }
}
