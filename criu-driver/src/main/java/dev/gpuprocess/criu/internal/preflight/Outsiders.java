package dev.gpuprocess.criu.internal.preflight;

import dev.gpuprocess.internal.proc.ProcFs;
import java.util.Collection;

/**
 * Finds the process at the other end of a pipe or socket that leads out of the tree, for messages.
 */
final class Outsiders {

  /** The number of descriptors that are examined for a message. */
  private static final int MOST_LOOKED_AT = 100_000;

  private Outsiders() {}

  /**
   * Finds a process that has a file open.
   *
   * @param target the target of {@code /proc/PID/fd/N}, such as {@code pipe:[12]}
   * @param tree the processes to leave out
   * @return such as {@code process 12 (tee)}; empty if none is found
   */
  static String holder(String target, Collection<Integer> tree) {
    int[] looked = new int[1];
    return ProcessHandle.allProcesses()
        .map(ProcessHandle::pid)
        .filter(pid -> !tree.contains(pid.intValue()))
        .takeWhile(pid -> looked[0] < MOST_LOOKED_AT)
        .filter(
            pid ->
                ProcFs.visibleFiles(pid).stream()
                    .peek(file -> looked[0]++)
                    .anyMatch(file -> file.target().equals(target)))
        .findFirst()
        .map(pid -> FindingCollector.process(pid.intValue()))
        .orElse("");
  }
}
