package dev.gpuprocess;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** A control group of its own for one process, frozen. */
final class FrozenGroup implements AutoCloseable {

  private static final Path ROOT = Path.of("/sys/fs/cgroup");
  private static final long PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(20);

  private final Path group;
  private final Path back;
  private final Path freezer;
  private final String thawed;
  private final long pid;

  private FrozenGroup(Path group, Path back, Path freezer, String thawed, long pid) {
    this.group = group;
    this.back = back;
    this.freezer = freezer;
    this.thawed = thawed;
    this.pid = pid;
  }

  /** Freezes a process by the first version of control groups; empty where that is not here. */
  static Optional<FrozenGroup> first(long pid) throws IOException {
    return make(ROOT.resolve("freezer"), pid, "freezer.state", "FROZEN", "THAWED");
  }

  /** Freezes a process by the second version of control groups; empty where that is not here. */
  static Optional<FrozenGroup> second(long pid) throws IOException {
    Path hybrid = ROOT.resolve("unified");
    return make(Files.isDirectory(hybrid) ? hybrid : ROOT, pid, "cgroup.freeze", "1", "0");
  }

  private static Optional<FrozenGroup> make(
      Path parent, long pid, String file, String frozen, String thawed) throws IOException {
    if (!Files.exists(parent.resolve("cgroup.procs")) || !Files.isWritable(parent)) {
      return Optional.empty();
    }
    Path group = Files.createTempDirectory(parent, "gpuprocess-test-");
    Path freezer = group.resolve(file);
    if (!Files.exists(freezer)) {
      Files.delete(group);
      return Optional.empty();
    }
    FrozenGroup made = new FrozenGroup(group, parent, freezer, thawed, pid);
    Files.writeString(group.resolve("cgroup.procs"), Long.toString(pid));
    Files.writeString(freezer, frozen);
    return Optional.of(made);
  }

  void thaw() throws IOException {
    Files.writeString(freezer, thawed);
  }

  @Override
  public void close() throws IOException {
    thaw();
    if (Files.exists(Path.of("/proc", Long.toString(pid)))) {
      Files.writeString(back.resolve("cgroup.procs"), Long.toString(pid));
    }
    long end = System.nanoTime() + PATIENCE_NANOS;
    while (!Files.readString(group.resolve("cgroup.procs")).isBlank() && System.nanoTime() < end) {
      LockSupport.parkNanos(PATIENCE_NANOS / 10_000);
    }
    Files.delete(group);
  }
}
