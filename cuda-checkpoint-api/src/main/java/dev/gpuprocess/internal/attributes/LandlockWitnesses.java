package dev.gpuprocess.internal.attributes;

import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;

/**
 * Processes outside of a tree that a thread of the tree may inspect unless Landlock confines it.
 * The kernel shows the rules of Landlock nowhere, but a confined thread may inspect no process
 * outside of its domain, whatever its capabilities are.
 */
final class LandlockWitnesses {

  private static final long SYS_PTRACE = 1L << 19;

  private final Set<Integer> candidates = new LinkedHashSet<>();

  private LandlockWitnesses(Collection<Integer> candidates) {
    this.candidates.addAll(candidates);
  }

  /** Finds candidates: this JVM, its ancestors, and the ancestors of the tree. */
  static LandlockWitnesses of(int root) {
    Set<Integer> candidates = new LinkedHashSet<>();
    ProcFs.ownAncestry().forEach(each -> candidates.add(each.pid()));
    Optional<Integer> next = ProcFs.stat(root).map(ProcStat::parent);
    while (next.isPresent() && next.get() > 0 && candidates.add(next.get())) {
      next = ProcFs.stat(next.get()).map(ProcStat::parent);
    }
    candidates.removeAll(new HashSet<>(ProcFs.tree(root)));
    return new LandlockWitnesses(candidates);
  }

  /** Returns a process that a thread may inspect; empty if none is known. */
  OptionalInt forThread(int task) {
    Credentials own = Credentials.of(task);
    if (own.isConfinedByProfile()) {
      return OptionalInt.empty();
    }
    return candidates.stream()
        .filter(candidate -> own.mayInspect(Credentials.of(candidate)))
        .mapToInt(Integer::intValue)
        .findFirst();
  }

  /** What the kernel compares before it asks Landlock. */
  private record Credentials(
      String users,
      String groups,
      long permitted,
      long effective,
      Optional<Path> pids,
      Optional<Path> owners,
      Optional<String> profile) {

    static Credentials of(int task) {
      Map<String, String> status = ProcFs.status(task);
      return new Credentials(
          ids(status.getOrDefault("Uid", "")),
          ids(status.getOrDefault("Gid", "")),
          Long.parseUnsignedLong(status.getOrDefault("CapPrm", "0"), 16),
          Long.parseUnsignedLong(status.getOrDefault("CapEff", "0"), 16),
          link(task, "pid"),
          link(task, "user"),
          profile(task));
    }

    /** Returns the one user or group; empty if the real, effective and saved ones differ. */
    private static String ids(String text) {
      String[] all = text.split("\\s+");
      return all.length == 4 && all[0].equals(all[1]) && all[0].equals(all[2]) ? all[0] : "";
    }

    private static Optional<Path> link(int task, String namespace) {
      try {
        return Optional.of(Files.readSymbolicLink(ProcFs.file(task, "ns", namespace)));
      } catch (IOException e) {
        return Optional.empty();
      }
    }

    private static Optional<String> profile(int task) {
      try {
        return Optional.of(Files.readString(ProcFs.file(task, "attr", "current")).strip());
      } catch (IOException noSuchModule) {
        return Optional.empty();
      }
    }

    /** Returns whether AppArmor or SELinux may deny the access, too. */
    boolean isConfinedByProfile() {
      return profile
          .filter(text -> !text.replace("\0", "").isEmpty() && !text.startsWith("unconfined"))
          .isPresent();
    }

    boolean mayInspect(Credentials other) {
      boolean sees =
          pids.isPresent()
              && pids.equals(other.pids)
              && owners.isPresent()
              && owners.equals(other.owners);
      boolean owns =
          !users.isEmpty()
              && users.equals(other.users)
              && !groups.isEmpty()
              && groups.equals(other.groups)
              && (other.permitted & ~permitted) == 0;
      return sees && (owns || (effective & SYS_PTRACE) != 0);
    }
  }
}
