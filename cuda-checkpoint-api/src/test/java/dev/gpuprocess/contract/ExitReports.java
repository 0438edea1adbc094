package dev.gpuprocess.contract;

import dev.gpuprocess.report.ProcessIdentity;
import org.junit.jupiter.api.Assumptions;

/** What the exit status of a process that is not a child of the reader needs of the machine. */
public final class ExitReports {

  private ExitReports() {}

  /**
   * Skips the test where the kernel reports no exits by pidfds (before Linux 6.15), or no process
   * reaps orphans.
   *
   * @param orphan a process that has exited
   */
  public static void assume(ProcessIdentity orphan) {
    String[] version = System.getProperty("os.version").split("\\D+");
    int number = Integer.parseInt(version[0]) * 1000 + Integer.parseInt(version[1]);
    Assumptions.assumeTrue(number >= 6015, "the kernel reports no exits by pidfds");
    Assumptions.assumeTrue(
        ProcessIdentity.of(orphan.pid()).filter(orphan::equals).isEmpty(),
        "no process reaps orphans here");
  }
}
