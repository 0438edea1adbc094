package dev.gpuprocess.internal.remote;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.ProcessMemory;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.remote.Registers.Name;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Map;
import java.util.Set;

/**
 * What a thread goes back to.
 *
 * @param registers as they are set by ptrace when the thread is let go: with the result and number
 *     of the system call that it was stopped in, so that the kernel itself restarts the call, with
 *     what is left of its timeout
 * @param again as a signal frame sets them, which has no place for the number of a system call: the
 *     call is made again with its arguments
 * @param mask the signals that it blocks
 */
record SavedRegisters(Registers registers, Registers again, long mask) {

  private static final int EINTR = 4;

  /** ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND, ERESTART_RESTARTBLOCK: seen by tracers only. */
  private static final Set<Long> RESTARTS = Set.of(-512L, -513L, -514L, -516L);

  private static final long RESTART_BLOCK = -516;

  /** Restarted, unless a signal handler is called. */
  private static final long RESTART_WITHOUT_HANDLER = -514;

  /**
   * What the kernel ends with EINTR also for a tracer's sake, without having done anything:
   * epoll_wait, epoll_pwait, epoll_pwait2, rt_sigtimedwait, semop, semtimedop, io_getevents,
   * io_pgetevents, and with a timeout on the socket read, recvfrom, recvmsg, accept, accept4.
   */
  private static final Set<Long> INTERRUPTED =
      Set.of(232L, 281L, 441L, 128L, 65L, 220L, 208L, 333L, 0L, 45L, 47L, 43L, 288L);

  private static final long RESTART_SYSCALL = 219;
  private static final int MOVE = 5;
  private static final byte MOVE_TO_EAX = (byte) 0xb8;

  /** Those that go on with what is left of their time: poll, nanosleep, futex, clock_nanosleep. */
  private static final Set<Integer> TIMED = Set.of(7, 35, 202, 230);

  private static final int SEQUENCE = 8;

  /** Looks at a thread that is stopped where the kernel looks for signals. */
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
   * Takes an EINTR back that is of our making: the kernel then restarts the call, unless a signal
   * handler is called.
   *
   * @return the thread's registers
   */
  static Registers settle(Tracee thread) throws UntraceableException, NativeCallException {
    Registers own = thread.registers();
    if (own.get(Name.RAX) != -EINTR
        || !INTERRUPTED.contains((long) (int) own.get(Name.ORIG_RAX))
        || hasSignal(thread.task())) {
      return own;
    }
    Registers restarted = own.with(Name.RAX, RESTART_WITHOUT_HANDLER);
    thread.setRegisters(restarted);
    return restarted;
  }

  /** Whether a thread waits for a time, of which the kernel knows what is left. */
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
   * A call that was restarted once has lost its number, but for the instruction before it: {@code
   * mov $NUMBER,%eax}. Without that the kernel answers EINTR.
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

  /** Whether the call was interrupted by more than us. */
  private static boolean hasSignal(int task) {
    Map<String, String> status = ProcFs.status(task);
    long pending = set(status, "SigPnd") | set(status, "ShdPnd");
    return (pending & ~set(status, "SigBlk")) != 0;
  }

  private static long set(Map<String, String> status, String name) {
    return Long.parseUnsignedLong(status.getOrDefault(name, "0"), 16);
  }

  /**
   * A thread that is interrupted in a restartable sequence goes on at the sequence's abort address.
   * The kernel does that when it sees the thread's own registers, which it will not.
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
