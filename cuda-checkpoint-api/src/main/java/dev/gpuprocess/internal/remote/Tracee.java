package dev.gpuprocess.internal.remote;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.Ptrace;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.Signals;
import dev.gpuprocess.internal.remote.UntraceableException.Reason;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.internal.time.Uninterrupted;
import dev.gpuprocess.report.ProcessIdentity;
import java.util.Optional;
import java.util.Set;

/** A thread of another process, traced by the thread of this JVM that uses this object. */
final class Tracee {

  /** Why the thread stopped. */
  enum Stop {
    /** Between two instructions, as after PTRACE_INTERRUPT. */
    TRAP,
    /** As TRAP, and a signal has stopped the whole process. */
    GROUP,
    /** At the entry to a system call or at the end of one. */
    SYSTEM_CALL,
    /** Before a signal is delivered. */
    SIGNAL
  }

  private static final int EVENT_STOP = 128;
  private static final int SYSTEM_CALL_TRAP = Signals.SIGTRAP | 0x80;

  /** Signals that an instruction causes: SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS. */
  private static final Set<Integer> FAULTS = Set.of(4, Signals.SIGTRAP, 7, 8, 11, 31);

  /**
   * Most stops take less. A time and not a number of yields, since one yield can take 10 ms if ten
   * threads compete for a processor.
   */
  private static final long YIELDING = 2_000_000;

  private static final long PAUSE = 100_000;

  /** A thread can be in one system call for as long as a checkpoint takes. */
  private static final long LONGEST_PAUSE = 1_000_000;

  private final Ptrace ptrace;
  private final int pid;
  private final int task;
  private final boolean filtered;
  private int signal;

  private Tracee(Ptrace ptrace, int pid, int task, boolean filtered) {
    this.ptrace = ptrace;
    this.pid = pid;
    this.task = task;
    this.filtered = filtered;
  }

  /**
   * Becomes the tracer of a thread, without stopping it. From here on the thread id cannot be
   * reused.
   *
   * @throws UntraceableException if the thread has ended, or may not be traced
   */
  static Tracee seize(Ptrace ptrace, ProcessIdentity process, int task)
      throws UntraceableException, NativeCallException {
    try {
      ptrace.seize(task);
    } catch (NativeCallException e) {
      throw Suitability.refused(process, task, e);
    }
    return new Tracee(ptrace, process.pid(), task, Suitability.check(process, task));
  }

  int task() {
    return task;
  }

  boolean filtered() {
    return filtered;
  }

  /** Interrupts the thread, without waiting for its stop. */
  void beginInterrupt() throws NativeCallException {
    ptrace.interrupt(task);
  }

  /** Moves the thread from the end of a system call to where the kernel checks for signals. */
  Stop toTrap(Deadline deadline) throws UntraceableException, NativeCallException {
    ptrace.interrupt(task);
    ptrace.resume(task, 0);
    return awaitTrap(deadline);
  }

  /**
   * Waits until the thread stops after an interrupt. Pending signals are delivered first.
   *
   * @return TRAP or GROUP
   */
  Stop awaitTrap(Deadline deadline) throws UntraceableException, NativeCallException {
    Stop stop = await(deadline);
    while (stop == Stop.SIGNAL || stop == Stop.SYSTEM_CALL) {
      // A stop of another kind cancels an earlier interrupt.
      ptrace.interrupt(task);
      ptrace.resume(task, stop == Stop.SIGNAL ? signal : 0);
      stop = await(deadline);
    }
    return stop;
  }

  /**
   * Resumes the thread until the next entry to a system call or the end of one.
   *
   * @return false if an instruction of the thread failed
   */
  boolean toSystemCall(Deadline deadline) throws UntraceableException, NativeCallException {
    ptrace.resumeToSystemCall(task, 0);
    for (Stop stop = await(deadline); stop != Stop.SYSTEM_CALL; stop = await(deadline)) {
      if (stop == Stop.SIGNAL && FAULTS.contains(signal)) {
        return false;
      }
      // All other signals are blocked but SIGSTOP, which stops the thread when it is detached.
      ptrace.resumeToSystemCall(task, stop == Stop.SIGNAL ? signal : 0);
    }
    return true;
  }

  @SuppressWarnings("ThreadPriorityCheck") // a stop takes less time than parking
  private Stop await(Deadline deadline) throws UntraceableException, NativeCallException {
    long patience = System.nanoTime() + YIELDING;
    long pause = PAUSE;
    while (true) {
      boolean late = System.nanoTime() - patience > 0;
      Optional<Integer> stop = ptrace.reportedStop(task);
      if (stop.isEmpty() && late) {
        stop = ptrace.stop(task);
      }
      if (stop.isPresent()) {
        return classify(stop.get());
      }
      if (deadline.passed()) {
        throw new UntraceableException(
            Reason.TIME,
            "thread %s did not stop in time: it waits uninterruptibly in the kernel"
                .formatted(task));
      }
      if (late && isDead()) {
        throw gone();
      }
      if (late) {
        Uninterrupted.pause(pause);
        pause = Math.min(2 * pause, LONGEST_PAUSE);
      } else {
        Thread.yield();
      }
    }
  }

  /**
   * The kernel reports the end of a first thread to its tracer only after the end of all other
   * threads, those that we trace included.
   */
  private boolean isDead() {
    return ProcFs.task(pid, task).filter(thread -> !thread.isDead()).isEmpty();
  }

  private Stop classify(int stop) {
    signal = stop & 0xff;
    if (stop >> 8 == EVENT_STOP) {
      return signal == Signals.SIGTRAP ? Stop.TRAP : Stop.GROUP;
    }
    return signal == SYSTEM_CALL_TRAP ? Stop.SYSTEM_CALL : Stop.SIGNAL;
  }

  private UntraceableException gone() {
    return new UntraceableException(Reason.GONE, "thread %s has ended".formatted(task));
  }

  void detach() throws NativeCallException {
    ptrace.detach(task);
  }

  Registers registers() throws UntraceableException, NativeCallException {
    byte[] bytes = ptrace.registers(task, Ptrace.GENERAL);
    if (bytes.length != Registers.BYTES) {
      throw new UntraceableException(
          Reason.BITS_32, "thread %s executes 32-bit code".formatted(task));
    }
    return Registers.of(bytes);
  }

  void setRegisters(Registers registers) throws NativeCallException {
    ptrace.setRegisters(task, Ptrace.GENERAL, registers.bytes());
  }

  byte[] extendedState() throws NativeCallException {
    return ptrace.registers(task, Ptrace.EXTENDED);
  }

  long blockedSignals() throws NativeCallException {
    return ptrace.blockedSignals(task);
  }

  void blockSignals(long signals) throws NativeCallException {
    ptrace.blockSignals(task, signals);
  }

  long restartableSequences() {
    return ptrace.restartableSequences(task);
  }

  boolean dispatchesSystemCalls() {
    return ptrace.dispatchesSystemCalls(task);
  }

  byte[] seccompFilter(int index) throws NativeCallException {
    return ptrace.seccompFilter(task, index);
  }
}
