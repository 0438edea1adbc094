package dev.gpuprocess.internal.proc;

import java.util.Map;

/**
 * The capabilities of a process ({@code /proc/PID/status}).
 *
 * @param root whether its effective user is root
 * @param effective what it may do, a bit each
 * @param inheritable what it hands on to programs that ask for it
 * @param bounding what programs that it starts can have at most
 * @param ambient what it hands on to every program
 */
public record Capabilities(
    boolean root, long effective, long inheritable, long bounding, long ambient) {

  /** Some of the capabilities, with the kernel's numbers. */
  public enum Capability {
    /** Networks. */
    NET_ADMIN(12),
    /** Other users' processes. */
    SYS_PTRACE(19),
    /** Nearly everything. */
    SYS_ADMIN(21),
    /** Limits. */
    SYS_RESOURCE(24),
    /** What CRIU needs of SYS_ADMIN, since Linux 5.9. */
    CHECKPOINT_RESTORE(40);

    private final long bit;

    Capability(int number) {
      bit = 1L << number;
    }

    @Override
    public String toString() {
      return "CAP_" + name();
    }
  }

  /**
   * Reads those of a process.
   *
   * @param pid the process
   * @return none at all when it is gone
   */
  public static Capabilities of(long pid) {
    Map<String, String> status = ProcFs.status(pid);
    String[] users = status.getOrDefault("Uid", "-1 -1").split("\\s+");
    return new Capabilities(
        users[1].equals("0"),
        set(status, "CapEff"),
        set(status, "CapInh"),
        set(status, "CapBnd"),
        set(status, "CapAmb"));
  }

  private static long set(Map<String, String> status, String name) {
    return Long.parseUnsignedLong(status.getOrDefault(name, "0"), 16);
  }

  /**
   * Tells whether the process may do it.
   *
   * @param capability what
   * @return whether it is effective
   */
  public boolean has(Capability capability) {
    return (effective & capability.bit) != 0;
  }

  /**
   * Tells whether a program that the process starts may do it, if that makes itself root.
   *
   * @param capability what
   * @return whether it can be effective
   */
  public boolean leaves(Capability capability) {
    return (bounding & capability.bit) != 0;
  }

  /**
   * Tells whether a program that the process starts may do it, if the program has no capabilities
   * of its own.
   *
   * @param capability what
   * @return whether it will be effective
   */
  public boolean handsOn(Capability capability) {
    return ((root ? inheritable | bounding : ambient) & capability.bit) != 0;
  }
}
