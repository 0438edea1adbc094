package dev.gpuprocess.internal.proc;

import java.io.IOException;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The capabilities of a process ({@code /proc/PID/status}).
 *
 * @param root whether its effective user is root
 * @param effective the capabilities that it has, one bit each
 * @param inheritable those that it passes to programs that ask for them
 * @param bounding the most that programs it starts can have
 * @param ambient those that it passes to every program
 */
public record Capabilities(
    boolean root, long effective, long inheritable, long bounding, long ambient) {

  /** The capabilities that matter here, with the kernel's numbers. */
  public enum Capability {
    /** Taking capabilities out of the own bounding set. */
    SETPCAP(8),
    /** Configuring networks. */
    NET_ADMIN(12),
    /** Tracing other users' processes. */
    SYS_PTRACE(19),
    /** Most of what root may do. */
    SYS_ADMIN(21),
    /** Raising limits. */
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

  /** Constant while this JVM runs; null until it was read. */
  private static volatile @Nullable Capabilities own;

  /**
   * Reads the capabilities of a process.
   *
   * @param pid the process
   * @return none when it is gone
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

  /** Returns those of this JVM, which are read once. */
  public static Capabilities ours() {
    Capabilities known = own;
    if (known == null) {
      known = of(ProcessHandle.current().pid());
      own = known;
    }
    return known;
  }

  private static long set(Map<String, String> status, String name) {
    return Long.parseUnsignedLong(status.getOrDefault(name, "0"), 16);
  }

  /**
   * Returns the number of the newest capability of this kernel.
   *
   * @throws IOException when it cannot be read
   */
  public static int newest() throws IOException {
    return (int) ProcFs.kernelNumber("sys/kernel/cap_last_cap");
  }

  /**
   * Returns whether the process has a capability.
   *
   * @param capability which
   * @return whether it is effective
   */
  public boolean has(Capability capability) {
    return (effective & capability.bit) != 0;
  }

  /**
   * Returns whether a program that runs as root could have a capability, if the process starts it.
   */
  public boolean mayGiveRoot(Capability capability) {
    return ((inheritable | bounding) & capability.bit) != 0;
  }

  /**
   * Returns whether a program that the process starts gets a capability, if the program file has
   * none.
   *
   * @param capability which
   * @return whether it will be effective
   */
  public boolean handsOn(Capability capability) {
    return ((root ? inheritable | bounding : ambient) & capability.bit) != 0;
  }
}
