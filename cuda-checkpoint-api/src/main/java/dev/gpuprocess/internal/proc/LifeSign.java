package dev.gpuprocess.internal.proc;

import java.util.List;

/**
 * What the kernel shows of a process that a tracer may have killed, or let go, a moment ago. All of
 * its threads are looked at: a kill is pending for each of them alone until the thread sees it.
 */
public enum LifeSign {
  /** It has ended, or is a zombie without living threads. */
  GONE,
  /** It was killed or is exiting, and nothing can keep it any more. */
  ENDING,
  /** Some of it is traced: whoever traces it may still do anything with it. */
  HELD,
  /** No kill is pending, nothing of it exits, and nobody traces it. */
  FREE;

  private static final long SIGKILL_BIT = 1L << (9 - 1);
  private static final long PF_EXITING = 0x4;

  /** The number of fields between the name in {@code stat} and the flags. */
  private static final int FLAGS = 6;

  /**
   * Looks at a process.
   *
   * @param pid whoever has it; compare the start time before and after
   * @return what is seen now
   */
  public static LifeSign of(long pid) {
    boolean living = false;
    boolean exiting = true;
    boolean held = false;
    for (int thread : threads(pid)) {
      String status = ProcFs.read(pid, "task/" + thread + "/status").orElse("");
      char state = value(status, "State").isEmpty() ? 'X' : value(status, "State").charAt(0);
      if (state == 'Z' || state == 'X') {
        continue;
      }
      living = true;
      if (isKill(value(status, "SigPnd")) || isKill(value(status, "ShdPnd"))) {
        return ENDING;
      }
      exiting &= isExiting(ProcFs.read(pid, "task/" + thread + "/stat").orElse(""));
      held |= state == 't' || !value(status, "TracerPid").equals("0");
    }
    if (!living) {
      return GONE;
    }
    return exiting ? ENDING : held ? HELD : FREE;
  }

  private static List<Integer> threads(long pid) {
    return ProcFs.stat(pid).isEmpty() ? List.of() : ProcFs.threads(pid);
  }

  private static String value(String status, String name) {
    int begin = status.startsWith(name + ":") ? 0 : status.indexOf("\n" + name + ":") + 1;
    if (begin == 0 && !status.startsWith(name + ":")) {
      return "";
    }
    int end = status.indexOf('\n', begin);
    return status.substring(begin + name.length() + 1, end < 0 ? status.length() : end).strip();
  }

  private static boolean isKill(String mask) {
    return !mask.isEmpty() && (Long.parseUnsignedLong(mask, 16) & SIGKILL_BIT) != 0;
  }

  private static boolean isExiting(String stat) {
    String[] rest = stat.substring(stat.lastIndexOf(')') + 1).strip().split(" ");
    return rest.length <= FLAGS || (Long.parseLong(rest[FLAGS]) & PF_EXITING) != 0;
  }
}
