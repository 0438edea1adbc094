package dev.gpuprocess.internal.remote;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.Ptrace;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.Signals;
import dev.gpuprocess.internal.time.Uninterrupted;
import dev.gpuprocess.process.ProcessIdentity;
import java.util.Optional;
import java.util.Set;
import java.util.function.BooleanSupplier;

/** A thread of another process that this thread traces. For use by this thread. */
final class Tracee {

  /** How a wait for a stop ended. */
  enum Stop {
    /** At its own pace between two instructions, as after PTRACE_INTERRUPT. */
    TRAP,
    /** The same, and a signal has stopped the whole process. */
    GROUP,
    /** At the entry to a system call or at the end of one. */
    SYSTEM_CALL,
    /** Before a signal is delivered. */
    SIGNAL
  }

  private static final int EVENT_STOP = 128;
  private static final int SYSTEM_CALL_TRAP = Signals.SIGTRAP | 0x80;

  /**
   * SIGILL, Signals.SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS: what an instruction itself causes.
   */
  private static final Set<Integer> FAULTS = Set.of(4, Signals.SIGTRAP, 7, 8, 11, 31);

  /**
   * Most stops come within it. By the clock and not by a number of yields, because one yield can
   * take 10 ms where ten threads want a processor.
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
   * Becomes the tracer of a thread, without stopping it. From here on it is this very thread,
   * whatever comes.
   *
   * @throws UntraceableException when it is gone, or may not be traced
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

  /** Has it stop, wherever it is, without waiting for that. */
  void beginInterrupt() throws NativeCallException {
    ptrace.interrupt(task);
  }

  /** From the end of a system call to the place where the kernel looks for signals. */
  Stop toTrap(long end) throws UntraceableException, NativeCallException {
    ptrace.interrupt(task);
    ptrace.resume(task, 0);
    return awaitTrap(end);
  }

  /**
   * Waits until it stops after an interrupt. Signals that it was about to get are delivered first.
   *
   * @param end when to give up, by the clock of {@link System#nanoTime}
   * @return TRAP or GROUP
   */
  Stop awaitTrap(long end) throws UntraceableException, NativeCallException {
    Stop stop = await(end);
    while (stop == Stop.SIGNAL || stop == Stop.SYSTEM_CALL) {
      // A stop of another kind takes back the interrupt that was asked for before it.
      ptrace.interrupt(task);
      ptrace.resume(task, stop == Stop.SIGNAL ? signal : 0);
      stop = await(end);
    }
    return stop;
  }

  /**
   * Lets it go on to the next entry to a system call or the end of one.
   *
   * @return whether it got there without a fault
   */
  boolean toSystemCall(long end) throws UntraceableException, NativeCallException {
    ptrace.resumeToSystemCall(task, 0);
    for (Stop stop = await(end); stop != Stop.SYSTEM_CALL; stop = await(end)) {
      if (stop == Stop.SIGNAL && FAULTS.contains(signal)) {
        return false;
      }
      // All others are blocked but SIGSTOP, which stops this thread when it is let go.
      ptrace.resumeToSystemCall(task, stop == Stop.SIGNAL ? signal : 0);
    }
    return true;
  }

  /**
   * Lets it go on as it likes, signals included, to the next entry to a system call or the end of
   * one.
   *
   * @param over asked again and again, whether to give up
   * @return false when it was given up; the thread goes on then
   */
  boolean toSystemCall(BooleanSupplier over) throws UntraceableException, NativeCallException {
    int deliver = 0;
    while (true) {
      ptrace.resumeToSystemCall(task, deliver);
      Optional<Stop> stop = await(over);
      if (stop.isEmpty() || stop.get() == Stop.SYSTEM_CALL) {
        return stop.isPresent();
      }
      deliver = stop.get() == Stop.SIGNAL ? signal : 0;
    }
  }

  private Stop await(long end) throws UntraceableException, NativeCallException {
    return await(() -> System.nanoTime() - end > 0)
        .orElseThrow(
            () ->
                new UntraceableException(
                    Untraceable.Reason.TIME,
                    "thread %s did not stop in time: it waits in the kernel for something that cannot be interrupted"
                        .formatted(task)));
  }

  @SuppressWarnings("ThreadPriorityCheck") // a stop takes less time than parking
  private Optional<Stop> await(BooleanSupplier over)
      throws UntraceableException, NativeCallException {
    long patience = System.nanoTime() + YIELDING;
    long pause = PAUSE;
    while (true) {
      boolean late = System.nanoTime() - patience > 0;
      Optional<Integer> status = ptrace.change(task);
      if (status.isEmpty() && late) {
        status = ptrace.stop(task);
      }
      if (status.isPresent()) {
        return Optional.of(classify(status.get()));
      }
      if (over.getAsBoolean()) {
        return Optional.empty();
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
   * The kernel reports the end of a first thread to its tracer only when the other threads are
   * gone, those that we trace included.
   */
  private boolean isDead() {
    return ProcFs.task(pid, task).filter(thread -> !thread.isDead()).isEmpty();
  }

  private Stop classify(int status) throws UntraceableException {
    if ((status & 0xff) != 0x7f) {
      throw gone();
    }
    signal = status >> 8 & 0xff;
    if (status >> 16 == EVENT_STOP) {
      return signal == Signals.SIGTRAP ? Stop.TRAP : Stop.GROUP;
    }
    return signal == SYSTEM_CALL_TRAP ? Stop.SYSTEM_CALL : Stop.SIGNAL;
  }

  UntraceableException gone() {
    return new UntraceableException(Untraceable.Reason.GONE, "thread %s has ended".formatted(task));
  }

  /** Lets it go on, still traced. */
  void resume() throws NativeCallException {
    ptrace.resume(task, 0);
  }

  void detach() throws NativeCallException {
    ptrace.detach(task);
  }

  Registers registers() throws UntraceableException, NativeCallException {
    byte[] bytes = ptrace.registers(task, Ptrace.GENERAL);
    if (bytes.length != Registers.BYTES) {
      throw new UntraceableException(
          Untraceable.Reason.BITS_32, "thread %s executes 32-bit code".formatted(task));
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
