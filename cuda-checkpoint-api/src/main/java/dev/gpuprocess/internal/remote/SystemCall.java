package dev.gpuprocess.internal.remote;

import java.util.Locale;

/** A system call that is made in other processes, with its number on x86_64. */
public enum SystemCall {
  /** Reads from a descriptor. */
  READ(0),
  /** Closes a descriptor. */
  CLOSE(3),
  /** Maps a file or memory. */
  MMAP(9),
  /** Changes the protection of memory. */
  MPROTECT(10),
  /** Unmaps memory. */
  MUNMAP(11),
  /** Ends a signal handler: sets all registers and the blocked signals. */
  RT_SIGRETURN(15),
  /** Controls a device, such as a terminal. */
  IOCTL(16),
  /** Moves memory. */
  MREMAP(25),
  /** Advises the kernel how memory will be used. */
  MADVISE(28),
  /** Returns the pid. */
  GETPID(39),
  /** Receives data and descriptors from a socket. */
  RECVMSG(47),
  /** Creates two connected sockets. */
  SOCKETPAIR(53),
  /** Starts a thread. */
  CLONE(56),
  /** Ends a thread. */
  EXIT(60),
  /** Sets the execution domain of a thread. */
  PERSONALITY(135),
  /** Locks memory, and has the kernel lock memory that will be mapped. */
  MLOCKALL(151),
  /** Sets the name of a thread, among others. */
  PRCTL(157),
  /** Returns the id of the thread. */
  GETTID(186),
  /** Sets the NUMA policy of mappings. */
  MBIND(237),
  /** Sets the NUMA policy of a thread. */
  SET_MEMPOLICY(238),
  /** Returns the NUMA policy of a thread or a mapping. */
  GET_MEMPOLICY(239),
  /** Reads keyrings, among others. */
  KEYCTL(250),
  /** Returns the list of robust futexes of a thread. */
  GET_ROBUST_LIST(274),
  /** Waits for a word in memory to change, or wakes the waiting threads. */
  FUTEX(202),
  /** Makes a descriptor a copy of another. */
  DUP3(292),
  /** Copies memory between processes, or within one. */
  PROCESS_VM_READV(310),
  /** Seals mappings. */
  MSEAL(462);

  private static final int LARGEST_ERRNO = 4095;

  private final int number;

  SystemCall(int number) {
    this.number = number;
  }

  /** Returns whether a result is a negated error number. */
  static boolean isError(long result) {
    return result < 0 && result >= -LARGEST_ERRNO;
  }

  /** Returns the number for {@code rax}. */
  public int number() {
    return number;
  }

  /** Returns the name in C. */
  @Override
  public String toString() {
    return name().toLowerCase(Locale.ROOT);
  }
}
