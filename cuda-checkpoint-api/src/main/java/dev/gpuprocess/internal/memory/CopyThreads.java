package dev.gpuprocess.internal.memory;

import dev.gpuprocess.internal.proc.ControlGroup;
import dev.gpuprocess.internal.proc.ProcFs;
import java.util.OptionalDouble;

/** How many threads copy the memory of a process. */
final class CopyThreads {

  /** More were no faster on a machine of 16 processors, where 12 were best. */
  private static final int MOST = 16;

  private static final int LEAST = 2;

  private CopyThreads() {}

  /**
   * Counts the threads that are started beside the driver's own.
   *
   * @param pid whose threads they are: it may be bound to some processors, and have a quota
   * @param processes how many are copied at the same time
   */
  static int beside(int pid, int processes) {
    int processors = Math.min(Runtime.getRuntime().availableProcessors(), allowed(pid));
    OptionalDouble quota = ControlGroup.processors(pid);
    if (quota.isPresent()) {
      processors = (int) Math.min(processors, Math.max(1, quota.getAsDouble()));
    }
    // A quarter of them is left to the driver and to everybody else.
    int all = Math.min(MOST, processors - processors / 4);
    int own = Math.max(Math.min(LEAST, all), all / processes);
    return Math.max(1, own - 1);
  }

  /** Of {@code Cpus_allowed: ffff,ffffffff}. */
  private static int allowed(int pid) {
    String mask = ProcFs.status(pid).getOrDefault("Cpus_allowed", "");
    int count = 0;
    for (int i = 0; i < mask.length(); i++) {
      count += Integer.bitCount(Math.max(0, Character.digit(mask.charAt(i), 16)));
    }
    return count == 0 ? Integer.MAX_VALUE : count;
  }
}
