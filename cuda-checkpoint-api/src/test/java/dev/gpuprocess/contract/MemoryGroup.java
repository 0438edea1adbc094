package dev.gpuprocess.contract;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Assumptions;

/** A control group with a memory limit for some processes, of the version that is mounted. */
public final class MemoryGroup implements AutoCloseable {

  private static final Path ROOT = Path.of("/sys/fs/cgroup");
  private static final String PROCESSES = "cgroup.procs";

  private final Path group;
  private final Path parent;
  private final String limit;

  private MemoryGroup(Path parent, String limit) throws IOException {
    this.parent = parent;
    this.group = Files.createTempDirectory(parent, "gpuprocess-test-");
    this.limit = limit;
  }

  /** Makes a group without a limit, or aborts the test where that is not allowed. */
  public static MemoryGroup create() {
    try {
      Path first = ROOT.resolve("memory");
      if (Files.exists(first.resolve("memory.limit_in_bytes"))) {
        return new MemoryGroup(first, "memory.limit_in_bytes");
      }
      Path switches = ROOT.resolve("cgroup.subtree_control");
      boolean isSecond = Files.exists(switches) && Files.readString(switches).contains("memory");
      Assumptions.assumeTrue(isSecond, "no control groups with memory limits");
      return new MemoryGroup(ROOT, "memory.max");
    } catch (IOException e) {
      return Assumptions.abort("no control group can be made: " + e);
    }
  }

  /** Moves a process into the group; memory that it has stays charged to its group before. */
  public void add(long pid) throws IOException {
    Files.writeString(group.resolve(PROCESSES), Long.toString(pid));
  }

  /** Limits the memory that processes in the group can take. */
  public void limit(long bytes) throws IOException {
    Files.writeString(group.resolve(limit), Long.toString(bytes));
  }

  /** Returns the directory of the group. */
  public Path directory() {
    return group;
  }

  @Override
  public void close() throws IOException {
    for (String pid : Files.readAllLines(group.resolve(PROCESSES))) {
      Files.writeString(parent.resolve(PROCESSES), pid);
    }
    FrozenGroup.remove(group);
  }
}
