package dev.gpuprocess.internal.linux;

import java.util.Optional;
import java.util.function.Consumer;

/**
 * The requests of {@code ptrace(2)} to threads of other processes. The tracer is a thread: the
 * thread that seized a task makes all requests to it, and when that thread ends, the kernel
 * detaches the task. For use by that one thread.
 */
public final class Ptrace {

  /** The general registers ({@code NT_PRSTATUS}). */
  public static final int GENERAL = 1;

  /** The floating point and vector registers, as XSAVE lays them out ({@code NT_X86_XSTATE}). */
  public static final int EXTENDED = 0x202;

  private static final long CONT = 7;
  private static final long DETACH = 17;
  private static final long SYSCALL = 24;
  private static final long GETSIGINFO = 0x4202;
  private static final long GETREGSET = 0x4204;
  private static final long SETREGSET = 0x4205;
  private static final long SEIZE = 0x4206;
  private static final long INTERRUPT = 0x4207;
  private static final long GETSIGMASK = 0x420a;
  private static final long SETSIGMASK = 0x420b;
  private static final long SECCOMP_GET_FILTER = 0x420c;
  private static final long GET_RSEQ_CONFIGURATION = 0x420f;
  private static final long GET_SYSCALL_USER_DISPATCH_CONFIG = 0x4211;

  private static final long O_TRACESYSGOOD = 1;
  private static final int STOPS =
      ChildReport.WSTOPPED | ChildReport.WNOHANG | ChildReport.WNOWAIT | ChildReport.ALL_TASKS;

  private static final int SIGNAL_SET = 8;
  private static final int LARGEST_REGISTERS = 1 << 14;
  private static final int IOVEC = LARGEST_REGISTERS;
  private static final int INSTRUCTION = 8;

  private final NativeMemory buffer = NativeMemory.of(LARGEST_REGISTERS + 16);
  private final Consumer<String> before;

  /** Creates an instance for the thread that uses it. */
  public Ptrace() {
    this(request -> {});
  }

  /**
   * Creates an instance for tests that end the tracer at any moment.
   *
   * @param before called with the name of each request before it is made; the request throws its
   *     exceptions
   */
  public Ptrace(Consumer<String> before) {
    this.before = before;
  }

  /** Becomes the tracer of a task without stopping it. System calls stop apart from signals. */
  public void seize(int task) throws NativeCallException {
    request("PTRACE_SEIZE", SEIZE, task, 0, O_TRACESYSGOOD);
  }

  /** Stops a task soon, whatever it does. */
  public void interrupt(int task) throws NativeCallException {
    request("PTRACE_INTERRUPT", INTERRUPT, task, 0, 0);
  }

  /** Continues a stopped task, with a signal unless that is 0. */
  public void resume(int task, int signal) throws NativeCallException {
    request("PTRACE_CONT", CONT, task, 0, signal);
  }

  /** Continues a stopped task up to the next entry to or exit from a system call. */
  public void resumeToSystemCall(int task, int signal) throws NativeCallException {
    request("PTRACE_SYSCALL", SYSCALL, task, 0, signal);
  }

  /** Detaches from a stopped task. */
  public void detach(int task) throws NativeCallException {
    request("PTRACE_DETACH", DETACH, task, 0, 0);
  }

  /**
   * Returns the stop that a task is in. The kernel keeps its report: a signal is delivered even if
   * the tracer ends before it continues the task, and a child that is killed here leaves its exit
   * status to the thread that waits for it.
   *
   * @return empty while the task runs, and after its end; else the signal, and above its eight bits
   *     the event of ptrace
   * @throws NativeCallException when the task does not exist any more ({@link
   *     NativeCallException#isGone})
   */
  public Optional<Integer> reportedStop(int task) throws NativeCallException {
    try {
      return ChildReport.of(ChildReport.P_PID, task, STOPS).map(ChildReport::status);
    } catch (NativeCallException e) {
      throw e.errno() == Libc.ECHILD ? Libc.failure("waitid " + task, Libc.ESRCH) : e;
    }
  }

  /**
   * Returns the stop that a task is in, for the case that another thread of this JVM, which waits
   * for any child, consumed its report.
   *
   * @return as {@link #reportedStop}
   */
  public Optional<Integer> stop(int task) {
    if (Libc.LIBRARY.ptrace(GETSIGINFO, task, 0, buffer.address()) != 0) {
      return Optional.empty();
    }
    int signal = buffer.getInt(0);
    int code = buffer.getInt(8);
    boolean ours = code == (0x80 | 5) || code >> 8 == 128;
    return Optional.of(ours ? code : signal);
  }

  /** Reads a set of registers of a stopped task. */
  public byte[] registers(int task, int set) throws NativeCallException {
    iovec(LARGEST_REGISTERS);
    request("PTRACE_GETREGSET", GETREGSET, task, set, buffer.address() + IOVEC);
    return buffer.read(0, (int) buffer.getLong(IOVEC + 8));
  }

  /** Writes a set of registers of a stopped task. */
  public void setRegisters(int task, int set, byte[] registers) throws NativeCallException {
    buffer.write(0, registers);
    iovec(registers.length);
    request("PTRACE_SETREGSET", SETREGSET, task, set, buffer.address() + IOVEC);
  }

  private void iovec(int length) {
    buffer.putLong(IOVEC, buffer.address());
    buffer.putLong(IOVEC + 8, length);
  }

  /** Reads the signals that a stopped task blocks outside of {@code sigsuspend} and the like. */
  public long blockedSignals(int task) throws NativeCallException {
    request("PTRACE_GETSIGMASK", GETSIGMASK, task, SIGNAL_SET, buffer.address());
    return buffer.getLong(0);
  }

  /** Sets the signals that a stopped task blocks. */
  public void blockSignals(int task, long signals) throws NativeCallException {
    buffer.putLong(0, signals);
    request("PTRACE_SETSIGMASK", SETSIGMASK, task, SIGNAL_SET, buffer.address());
  }

  /**
   * Returns the address of the {@code struct rseq} of a stopped task.
   *
   * @return 0 when none is pending, or the kernel is too old to return it
   */
  public long restartableSequences(int task) {
    return Libc.LIBRARY.ptrace(GET_RSEQ_CONFIGURATION, task, 24, buffer.address()) < 0
        ? 0
        : buffer.getLong(0);
  }

  /** Returns whether system calls of a stopped task are turned into signals, as in Wine. */
  public boolean dispatchesSystemCalls(int task) {
    return Libc.LIBRARY.ptrace(GET_SYSCALL_USER_DISPATCH_CONFIG, task, 32, buffer.address()) >= 0
        && buffer.getLong(0) != 0;
  }

  /**
   * Reads a seccomp filter of a stopped task.
   *
   * @param index 0 for the filter that was installed last
   * @return instructions of classic BPF, 8 bytes each
   * @throws NativeCallException with {@code ENOENT} behind the last, {@code EINVAL} where there are
   *     none, {@code EACCES} without CAP_SYS_ADMIN
   */
  public byte[] seccompFilter(int task, int index) throws NativeCallException {
    long length = request("PTRACE_SECCOMP_GET_FILTER", SECCOMP_GET_FILTER, task, index, 0);
    // One byte more, as there may be no instruction.
    NativeMemory program = NativeMemory.of((int) length * INSTRUCTION + 1);
    if (program.with(to -> Libc.LIBRARY.ptrace(SECCOMP_GET_FILTER, task, index, to)) != length) {
      throw Libc.failure("PTRACE_SECCOMP_GET_FILTER of thread " + task, Libc.errno());
    }
    return program.read(0, (int) length * INSTRUCTION);
  }

  private long request(String name, long request, int task, long address, long data)
      throws NativeCallException {
    before.accept(name);
    long result = Libc.LIBRARY.ptrace(request, task, address, data);
    if (result < 0) {
      throw Libc.failure(name + " of thread " + task, Libc.errno());
    }
    return result;
  }
}
