package dev.gpuprocess.internal.remote;

import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.ProcessMemory;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.Signals;
import dev.gpuprocess.internal.remote.Registers.Name;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Map;
import java.util.Set;

/**
 * The state that a borrowed thread returns to.
 *
 * @param registers for a return through ptrace. They hold the number and result of the system call
 *     that the thread was stopped in, so the kernel restarts the call with the rest of its timeout.
 * @param again for a return through a signal frame, which has no place for the number of a system
 *     call: the thread makes the call again
 * @param mask the signals that the thread blocks
 */
record SavedRegisters(Registers registers, Registers again, long mask) {

  /** ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND, ERESTART_RESTARTBLOCK: only tracers see them. */
  private static final Set<Long> RESTARTS = Set.of(-512L, -513L, -514L, -516L);

  private static final long RESTART_BLOCK = -516;

  /** Restarted, unless a signal handler is called. */
  private static final long RESTART_WITHOUT_HANDLER = -514;

  /**
   * Calls that return EINTR because of a tracer, without effect: epoll_wait, epoll_pwait,
   * epoll_pwait2, rt_sigtimedwait, semop, semtimedop, io_getevents, io_pgetevents, and, if the
   * socket has a timeout, read, readv, recvfrom, recvmsg, recvmmsg, accept, accept4, connect,
   * write, writev, sendto, sendmsg, sendmmsg.
   */
  private static final Set<Long> INTERRUPTED =
      Set.of(
          232L, 281L, 441L, 128L, 65L, 220L, 208L, 333L, 0L, 19L, 45L, 47L, 299L, 43L, 288L, 42L,
          1L, 20L, 44L, 46L, 307L);

  private static final long RESTART_SYSCALL = 219;
  private static final int MOVE = 5;
  private static final byte MOVE_TO_EAX = (byte) 0xb8;

  /** Calls that keep the rest of their timeout: poll, nanosleep, futex, clock_nanosleep. */
  private static final Set<Integer> TIMED = Set.of(7, 35, 202, 230);

  private static final int SEQUENCE = 8;

  /** Reads the state of a thread that is stopped where the kernel checks for signals. */
  static SavedRegisters of(Tracee thread, ProcessMemory memory)
      throws UntraceableException, NativeCallException {
    Registers own = settle(thread);
    long mask = thread.blockedSignals();
    if ((int) own.get(Name.ORIG_RAX) == -1) {
      Registers there = outsideOfSequence(own, thread.restartableSequences(), memory);
      return new SavedRegisters(there, there, mask);
    }
    return new SavedRegisters(own, isRestarted(own.get(Name.RAX)) ? again(own, memory) : own, mask);
  }

  /**
   * Reads the registers of a stopped thread. An EINTR that the stop caused is replaced, so that the
   * kernel restarts the call unless it calls a signal handler.
   */
  static Registers settle(Tracee thread) throws UntraceableException, NativeCallException {
    Registers own = thread.registers();
    if (own.get(Name.RAX) != -Libc.EINTR
        || !INTERRUPTED.contains((long) (int) own.get(Name.ORIG_RAX))
        || hasSignal(thread.task())) {
      return own;
    }
    Registers restarted = own.with(Name.RAX, RESTART_WITHOUT_HANDLER);
    thread.setRegisters(restarted);
    return restarted;
  }

  /** Returns whether a thread waits with a timeout whose rest the kernel keeps. */
  static boolean hasTimeout(Registers registers) {
    return (int) registers.get(Name.ORIG_RAX) != -1 && registers.get(Name.RAX) == RESTART_BLOCK;
  }

  static boolean isRestarted(long result) {
    return RESTARTS.contains(result);
  }

  private static Registers again(Registers own, ProcessMemory memory) {
    long number = own.get(Name.ORIG_RAX);
    return own.with(Name.RIP, own.get(Name.RIP) - Gadgets.SYSCALL)
        .with(Name.RAX, number == RESTART_SYSCALL ? numberInCode(own, memory) : number);
  }

  /**
   * Reads the number of a restarted call from the instruction before it, {@code mov $NUMBER,%eax}.
   * If there is no such instruction, the call returns EINTR.
   */
  private static long numberInCode(Registers own, ProcessMemory memory) {
    try {
      byte[] code = memory.read(own.get(Name.RIP) - Gadgets.SYSCALL - MOVE, MOVE);
      int number = ByteBuffer.wrap(code).order(ByteOrder.LITTLE_ENDIAN).getInt(1);
      return code[0] == MOVE_TO_EAX && TIMED.contains(number) ? number : RESTART_SYSCALL;
    } catch (NativeCallException unreadable) {
      return RESTART_SYSCALL;
    }
  }

  /** Returns whether a signal interrupted the call too. */
  private static boolean hasSignal(int task) {
    Map<String, String> status = ProcFs.status(task);
    long pending = Signals.set(status, "SigPnd") | Signals.set(status, "ShdPnd");
    return (pending & ~Signals.set(status, "SigBlk")) != 0;
  }

  /**
   * Moves a thread in a restartable sequence to the abort address of the sequence. The kernel does
   * so only if it sees the thread's own registers, which it does not while the thread is borrowed.
   */
  private static Registers outsideOfSequence(Registers own, long area, ProcessMemory memory)
      throws NativeCallException {
    long sequence = area == 0 ? 0 : memory.readLong(area + SEQUENCE);
    if (sequence == 0) {
      return own;
    }
    long start = memory.readLong(sequence + 8);
    long length = memory.readLong(sequence + 16);
    long in = own.get(Name.RIP) - start;
    return Long.compareUnsigned(in, length) < 0
        ? own.with(Name.RIP, memory.readLong(sequence + 24))
        : own;
  }
}
