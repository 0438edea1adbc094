package dev.gpuprocess.internal.linux;

import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.proc.Unreadable;
import dev.gpuprocess.report.ProcessIdentity;
import java.nio.file.Files;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.function.LongPredicate;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The result of a search for a process by its pid in its own pid namespace. Only processes of this
 * namespace and of those below it are visible.
 *
 * @param process its identity here; empty when it was not found
 * @param certain whether it would have been found if it existed
 */
public record ProcessSearch(Optional<ProcessIdentity> process, boolean certain) {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /**
   * Searches a process.
   *
   * @param namespace the inode of its pid namespace
   * @param pid its pid there
   * @param start returns whether a start time, in clock ticks since boot, can be that of the
   *     process
   */
  public static ProcessSearch find(long namespace, int pid, LongPredicate start) {
    long ours = ProcessKey.self().namespace();
    if (namespace == ours) {
      return here(pid, start);
    }
    // The first namespace shows all processes.
    boolean certain = ProcessKey.isInFirstNamespace();
    List<Integer> candidates;
    try {
      candidates = ProcFs.processes();
    } catch (ProcessUnreadableException e) {
      LOG.warn("/proc cannot be listed: {}", e.toString());
      return new ProcessSearch(Optional.empty(), false);
    }
    for (int candidate : candidates) {
      OptionalLong its = namespaceOf(candidate);
      if (its.isPresent() && its.getAsLong() != namespace) {
        continue;
      }
      OptionalInt inner = ProcFs.innermostPid(candidate);
      if (inner.isPresent() ? inner.getAsInt() != pid : !Files.exists(ProcFs.file(candidate))) {
        continue;
      }
      ProcessSearch found = here(candidate, start);
      if (found.process().isPresent() && its.isPresent() && inner.isPresent()) {
        return found;
      }
      // A process without permission might be the one.
      certain &= found.isGone();
    }
    return new ProcessSearch(Optional.empty(), certain);
  }

  private static OptionalLong namespaceOf(int candidate) {
    return Unreadable.as(OptionalLong.empty(), () -> ProcessKey.namespaceOf(candidate));
  }

  private static ProcessSearch here(int pid, LongPredicate start) {
    return new ProcessSearch(
        ProcessIdentity.of(pid).filter(found -> start.test(found.startTicks())), true);
  }

  /** Returns whether it has certainly ended; a zombie has. */
  public boolean isGone() {
    return process.map(found -> !found.isAlive()).orElse(certain);
  }
}
