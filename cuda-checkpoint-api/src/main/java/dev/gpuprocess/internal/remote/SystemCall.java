package dev.gpuprocess.internal.remote;

import java.util.Locale;

/** The system calls that are made in other processes, with their numbers on x86_64. */
public enum SystemCall {
  /** Reads from a descriptor. */
  READ(0),
  /** Closes a descriptor. */
  CLOSE(3),
  /** Maps a file or memory. */
  MMAP(9),
  /** Changes the protection of memory. */
  MPROTECT(10),
  /** Unmaps. */
  MUNMAP(11),
  /** Ends a signal handler: sets all registers and the blocked signals. */
  RT_SIGRETURN(15),
  /** Moves memory. */
  MREMAP(25),
  /** Says how memory will be used, or populates it. */
  MADVISE(28),
  /** Asks for the pid. */
  GETPID(39),
  /** Receives data and descriptors from a socket. */
  RECVMSG(47),
  /** Makes two connected sockets. */
  SOCKETPAIR(53),
  /** Starts a thread. */
  CLONE(56),
  /** Ends a thread. */
  EXIT(60),
  /** Names a thread, among much else. */
  PRCTL(157),
  /** Asks for the thread's id. */
  GETTID(186),
  /** Waits for a word in memory to change, or wakes who waits for that. */
  FUTEX(202),
  /** Has a descriptor stand for what another one stands for. */
  DUP3(292),
  /** Copies memory; within one process, too. */
  PROCESS_VM_READV(310);

  private static final int LARGEST_ERRNO = 4095;

  private final int number;

  SystemCall(int number) {
    this.number = number;
  }

  /** Whether a result is an error number, negated. */
  static boolean isError(long result) {
    return result < 0 && result >= -LARGEST_ERRNO;
  }

  /** What goes into {@code rax}. */
  public int number() {
    return number;
  }

  /** As in C. */
  @Override
  public String toString() {
    return name().toLowerCase(Locale.ROOT);
  }
}
