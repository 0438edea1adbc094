package dev.gpuprocess.contract;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** A control group of its own for one process, or for one thread of it, frozen. */
public final class FrozenGroup implements AutoCloseable {

  private static final Path ROOT = Path.of("/sys/fs/cgroup");
  private static final long PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(20);
  private static final String PROCESSES = "cgroup.procs";
  private static final String FREEZE = "cgroup.freeze";

  private final Path back;
  private final String file;
  private final String thawed;
  private final long pid;

  /** Those made, from above. */
  private final List<Path> groups = new ArrayList<>();

  private Path frozen;

  private FrozenGroup(Path back, String file, String thawed, long pid) {
    this.back = back;
    this.frozen = back;
    this.file = file;
    this.thawed = thawed;
    this.pid = pid;
  }

  /**
   * Freezes a process by the first version of control groups.
   *
   * @param pid the process
   * @return empty where that is not here
   */
  public static Optional<FrozenGroup> first(long pid) throws IOException {
    Optional<FrozenGroup> made =
        in(ROOT.resolve("freezer"), "freezer.state", "THAWED", pid, "gpuprocess-test-");
    if (made.isPresent()) {
      made.get().join();
      made.get().freeze("FROZEN");
    }
    return made;
  }

  /**
   * Freezes a process by the second version of control groups.
   *
   * @param pid the process
   * @return empty where that is not here
   */
  public static Optional<FrozenGroup> second(long pid) throws IOException {
    Optional<FrozenGroup> made = ofSecond(pid);
    if (made.isPresent()) {
      made.get().join();
      made.get().freeze("1");
    }
    return made;
  }

  /**
   * The same, by the group above that of the process.
   *
   * @param pid the process
   * @return empty where that is not here
   */
  public static Optional<FrozenGroup> above(long pid) throws IOException {
    Optional<FrozenGroup> made = ofSecond(pid);
    if (made.isPresent()) {
      FrozenGroup group = made.get();
      group.groups.add(Files.createDirectory(group.groups.get(0).resolve("below")));
      group.join();
      group.freeze("1");
    }
    return made;
  }

  /**
   * Freezes one thread of a process.
   *
   * @param pid the process
   * @param thread any thread of it
   * @return empty where that is not here
   */
  public static Optional<FrozenGroup> thread(long pid, int thread) throws IOException {
    Optional<FrozenGroup> made = ofSecond(pid);
    if (made.isPresent()) {
      FrozenGroup group = made.get();
      group.join();
      Path threaded = Files.createDirectory(group.groups.get(0).resolve("threaded"));
      group.groups.add(threaded);
      Files.writeString(threaded.resolve("cgroup.type"), "threaded");
      Files.writeString(threaded.resolve("cgroup.threads"), Integer.toString(thread));
      group.frozen = threaded;
      group.freeze("1");
    }
    return made;
  }

  private static Optional<FrozenGroup> ofSecond(long pid) throws IOException {
    Path hybrid = ROOT.resolve("unified");
    return in(Files.isDirectory(hybrid) ? hybrid : ROOT, FREEZE, "0", pid, "gpuprocess-test-");
  }

  private static Optional<FrozenGroup> in(
      Path parent, String file, String thawed, long pid, String name) throws IOException {
    if (!Files.exists(parent.resolve(PROCESSES)) || !Files.isWritable(parent)) {
      return Optional.empty();
    }
    FrozenGroup made = new FrozenGroup(parent, file, thawed, pid);
    made.groups.add(Files.createTempDirectory(parent, name));
    made.frozen = made.groups.get(0);
    if (!Files.exists(made.frozen.resolve(file))) {
      Files.delete(made.frozen);
      return Optional.empty();
    }
    return Optional.of(made);
  }

  private void join() throws IOException {
    Path last = groups.get(groups.size() - 1);
    Files.writeString(last.resolve(PROCESSES), Long.toString(pid));
  }

  private void freeze(String word) throws IOException {
    Files.writeString(frozen.resolve(file), word);
  }

  /** Lets it go on. */
  public void thaw() throws IOException {
    freeze(thawed);
  }

  @Override
  public void close() throws IOException {
    thaw();
    if (Files.exists(Path.of("/proc", Long.toString(pid)))) {
      Files.writeString(back.resolve(PROCESSES), Long.toString(pid));
    }
    for (int i = groups.size() - 1; i >= 0; i--) {
      remove(groups.get(i));
    }
  }

  /** A group is busy until the last of its tasks has been torn down. */
  static void remove(Path group) throws IOException {
    long end = System.nanoTime() + PATIENCE_NANOS;
    while (true) {
      try {
        Files.delete(group);
        return;
      } catch (IOException busy) {
        if (System.nanoTime() > end) {
          throw busy;
        }
        LockSupport.parkNanos(PATIENCE_NANOS / 10_000);
      }
    }
  }
}
