package dev.gpuprocess.internal.linux;

/** Numbers of system calls on this machine, for calls that have no function in the C library. */
public final class SystemCalls {

  static final boolean ARM = "aarch64".equals(System.getProperty("os.arch"));

  static final long OPENAT = number(257, 56);
  static final long MKDIRAT = number(258, 34);
  static final long UNLINKAT = number(263, 35);
  static final long LINKAT = number(265, 37);
  static final long READLINKAT = number(267, 78);
  static final long FCHOWN = number(93, 55);
  static final long GETPID = number(39, 172);
  static final long SETGROUPS = number(116, 159);
  static final long SETFSUID = number(122, 151);
  static final long SETFSGID = number(123, 152);
  static final long PRCTL = number(157, 167);
  static final long KCMP = number(312, 272);

  public static final long RECVFROM = number(45, 207);
  public static final long IOPRIO_SET = number(251, 30);
  public static final long IOPRIO_GET = number(252, 31);

  // These have the same number on every architecture.
  static final long PIDFD_SEND_SIGNAL = 424;
  static final long PIDFD_OPEN = 434;
  static final long PIDFD_GETFD = 438;

  private SystemCalls() {}

  private static long number(long amd64, long aarch64) {
    return ARM ? aarch64 : amd64;
  }
}
