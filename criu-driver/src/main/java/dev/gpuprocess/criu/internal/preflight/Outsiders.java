package dev.gpuprocess.criu.internal.preflight;

import dev.gpuprocess.internal.proc.ProcFs;
import java.util.Collection;

/** Finds who is at the other end of something that leads out of the tree. For messages alone. */
final class Outsiders {

  /** More descriptors than this are not looked at for a message. */
  private static final int MOST_LOOKED_AT = 100_000;

  private Outsiders() {}

  /**
   * Looks for a process with this open.
   *
   * @param target as {@code /proc/PID/fd/N} says it, such as {@code pipe:[12]}
   * @param tree who does not count
   * @return such as {@code process 12 (tee)}; empty when nobody is found
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
        .map(pid -> FindingCollector.who(pid.intValue()))
        .orElse("");
  }
}
