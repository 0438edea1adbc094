package dev.gpuprocess.internal.proc;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalDouble;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Limits are read from hierarchies of both versions, as the kernel writes them. */
class ControlGroupTest {

  private static final String NONE = "9223372036854771712";

  @TempDir Path directory;

  private CgroupMounts mounts(String... lines) {
    List<Mount> mounts = new ArrayList<>();
    for (String each : lines) {
      Mount.parse(each.replace("AT", directory.toString())).ifPresent(mounts::add);
    }
    return new CgroupMounts(mounts);
  }

  private void group(String name, String... files) throws IOException {
    Path group = Files.createDirectories(directory.resolve(name));
    for (int i = 0; i < files.length; i += 2) {
      Files.writeString(group.resolve(files[i]), files[i + 1] + "\n");
    }
  }

  private void unified(String name, String limit, long used, long cached) throws IOException {
    group(
        name,
        "memory.max",
        limit,
        "memory.current",
        Long.toString(used),
        "memory.stat",
        "anon 1\nactive_file %d\ninactive_file 0".formatted(cached));
  }

  private void legacy(String name, String limit, long used, String stat) throws IOException {
    group(
        name,
        "memory.limit_in_bytes",
        limit,
        "memory.usage_in_bytes",
        Long.toString(used),
        "memory.stat",
        stat);
  }

  private static List<Long> rooms(CgroupMounts mounts, String groups) {
    return ControlGroup.memoryLimits(mounts, groups).stream().map(MemoryLimit::room).toList();
  }

  @Test
  void secondVersion_eachGroupAboveCounts() throws IOException {
    CgroupMounts mounts = mounts("41 31 0:38 / AT rw,relatime shared:9 - cgroup2 cgroup2 rw");
    unified("", "max", 0, 0);
    unified("job", "1000", 300, 100);
    unified("job/rank0", "5000", 200, 0);
    assertEquals(List.of(4800L, 800L), rooms(mounts, "0::/job/rank0\n"));
    unified("job", "max", 300, 100);
    assertEquals(List.of(4800L), rooms(mounts, "0::/job/rank0\n"));
    assertEquals(List.of(), rooms(mounts, "0::/elsewhere\n"));
    assertEquals(List.of(), rooms(mounts, "0::/../job\n"), "outside our cgroup namespace");
    group("job/rank0", "memory.swap.max", "300", "memory.swap.current", "100");
    MemoryLimit limit = ControlGroup.memoryLimits(mounts, "0::/job/rank0").get(0);
    assertEquals(200, limit.swap());
  }

  @Test
  void firstVersion_besideTheSecond() throws IOException {
    CgroupMounts mounts =
        mounts(
            "35 31 0:32 / AT/memory rw,relatime - cgroup cgroup rw,memory",
            "36 31 0:33 / AT/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct",
            "41 31 0:38 / AT/unified rw - cgroup2 cgroup2 rw");
    String groups = "6:freezer:/\n4:memory:/job/rank0\n2:cpu,cpuacct:/job\n0::/\n";
    group("unified");
    legacy("memory", NONE, 9000, "total_active_file 1");
    legacy(
        "memory/job", "3000", 2500, "active_file 0\ntotal_active_file 60\ntotal_inactive_file 40");
    legacy("memory/job/rank0", NONE, 700, "hierarchical_memory_limit 3000\ntotal_active_file 0");
    assertEquals(List.of(2300L, 600L), rooms(mounts, groups));
    group(
        "memory/job", "memory.memsw.limit_in_bytes", "4000", "memory.memsw.usage_in_bytes", "2600");
    assertEquals(900, ControlGroup.memoryLimits(mounts, groups).get(1).swap());
    group("cpu,cpuacct/job", "cpu.cfs_quota_us", "150000", "cpu.cfs_period_us", "100000");
    assertEquals(OptionalDouble.of(1.5), ControlGroup.processors(mounts, groups));
    group("cpu,cpuacct/job", "cpu.cfs_quota_us", "-1");
    assertEquals(OptionalDouble.empty(), ControlGroup.processors(mounts, groups));
  }

  @Test
  void containerOfTheFirstVersion_seesTheLimitAbove() throws IOException {
    CgroupMounts mounts =
        mounts("35 31 0:32 /docker/a AT/memory rw,relatime - cgroup cgroup rw,memory");
    legacy("memory", NONE, 100, "hierarchical_memory_limit 1000\ntotal_active_file 0");
    assertEquals(List.of(900L), rooms(mounts, "4:memory:/docker/a\n"));
    assertEquals(List.of(), rooms(mounts, "4:memory:/docker/b\n"));
  }
}
