package dev.gpuprocess.internal.proc;

import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * Finds out whether processes are stopped because their control group, or one above it, is frozen.
 * Every thread is checked, as the threads of one process may be in different groups. If this
 * process cannot see a group, as in a container, the answer depends on where the group's threads
 * wait.
 *
 * <p>Caches the states of groups, so an instance is for one check. Not safe for use by several
 * threads.
 */
public final class Freezer {

  /** The state of a process. */
  public enum State {
    /** No group of any thread is frozen, or about to be. */
    THAWED,
    /** At least one thread is frozen, or about to be. */
    FROZEN,
    /** A group is not visible from here, and the wait of its threads gives no answer. */
    UNKNOWN
  }

  /** The kernel functions in which frozen threads wait ({@code wchan}). */
  private static final Set<String> ICE = Set.of("do_freezer_trap", "get_signal", "__refrigerator");

  private static final String SECOND = "0::";
  private static final String FREEZER = "freezer";

  private final CgroupMounts mounts;
  private final Map<String, State> groups = new HashMap<>();

  private Freezer(CgroupMounts mounts) {
    this.mounts = mounts;
  }

  /**
   * Starts a check.
   *
   * @return an instance for any number of processes
   * @throws ProcessUnreadableException when the mounts of this process cannot be read
   */
  public static Freezer look() {
    return new Freezer(CgroupMounts.ours());
  }

  static Freezer look(CgroupMounts mounts) {
    return new Freezer(mounts);
  }

  /**
   * Checks all threads of a process.
   *
   * @param pid the process
   * @return thawed also when it is gone
   * @throws ProcessUnreadableException when {@code /proc} cannot be read for it
   */
  public State of(long pid) {
    State state = State.THAWED;
    for (int thread : ProcFs.threads(pid)) {
      State own = ofThread(ProcFs.taskDirectory(pid, thread));
      if (own == State.FROZEN) {
        return State.FROZEN;
      }
      state = own == State.UNKNOWN ? own : state;
    }
    return state;
  }

  private State ofThread(Path thread) {
    State state = State.THAWED;
    for (String line : ProcFile.text(thread.resolve("cgroup")).orElse("").split("\n")) {
      State group = groups.computeIfAbsent(line, this::ofGroup);
      if (group == State.FROZEN) {
        return State.FROZEN;
      }
      state = group == State.UNKNOWN ? group : state;
    }
    return state == State.UNKNOWN ? byPlace(thread) : state;
  }

  /** {@code 0::/job} or {@code 6:freezer:/job}. */
  private State ofGroup(String line) {
    String[] parts = line.split(":", 3);
    if (parts.length < 3) {
      return State.THAWED;
    }
    if (line.startsWith(SECOND)) {
      return mounts.unified(parts[2]).map(this::ofSecond).orElse(State.UNKNOWN);
    }
    if (Set.of(parts[1].split(",")).contains(FREEZER)) {
      return mounts.legacy(FREEZER, parts[2]).map(Freezer::ofFirst).orElse(State.UNKNOWN);
    }
    return State.THAWED;
  }

  /**
   * The events also cover groups above that cannot be seen, but lag behind {@code cgroup.freeze}.
   */
  private State ofSecond(Path group) {
    if (ProcFile.isGone(group)) {
      return State.UNKNOWN;
    }
    if (says(group.resolve("cgroup.events"), "frozen 1")) {
      return State.FROZEN;
    }
    for (Path each = group; each != null && isBelowMount(each); each = each.getParent()) {
      if (says(each.resolve("cgroup.freeze"), "1")) {
        return State.FROZEN;
      }
    }
    return State.THAWED;
  }

  private static boolean isBelowMount(Path group) {
    return !ProcFile.isGone(group.resolve("cgroup.procs"));
  }

  /** The state of a version 1 group includes the groups above it. */
  private static State ofFirst(Path group) {
    if (ProcFile.isGone(group)) {
      return State.UNKNOWN;
    }
    Optional<String> state = ProcFile.text(group.resolve("freezer.state")).map(String::strip);
    return state.isEmpty() || state.get().equals("THAWED") ? State.THAWED : State.FROZEN;
  }

  private static boolean says(Path file, String line) {
    return ProcFile.text(file).map(text -> text.lines().anyMatch(line::equals)).orElse(false);
  }

  private static State byPlace(Path thread) {
    if (ProcFs.parse(thread).map(ProcStat::isDead).orElse(true)) {
      return State.THAWED;
    }
    return ICE.contains(ProcFile.text(thread.resolve("wchan")).orElse("").strip())
        ? State.FROZEN
        : State.UNKNOWN;
  }
}
