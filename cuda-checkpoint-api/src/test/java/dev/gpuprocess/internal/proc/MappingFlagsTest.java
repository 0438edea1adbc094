package dev.gpuprocess.internal.proc;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** What the kernel says of mappings; not every machine has all of it. */
class MappingFlagsTest {

  private static final String SMAPS =
      """
      7f0000000000-7f0000100000 rw-p 00000000 00:00 0 \nSize:               1024 kB
      ProtectionKey:         0
      VmFlags: rd wr mr mw me ac sd\s
      7f0000100000-7f0000200000 rw-p 00000000 00:00 0 \nSize:               1024 kB
      ProtectionKey:         1
      VmFlags: rd wr hg\s
      7f0000200000-7f0000300000 rw-p 00000000 00:00 0 \nVmFlags: rd wr\s
      """;

  private static final String NUMA_MAPS =
      """
      7f0000000000 default anon=1 dirty=1 N0=1 kernelpagesize_kB=4
      7f0000100000 default
      7f0000200000 bind:0 anon=3
      """;

  @Test
  void keysAndPoliciesAreFlags() {
    Map<Long, Set<String>> found = new java.util.TreeMap<>();
    MappingFlags flags = new MappingFlags((mapping, its) -> found.put(mapping.start(), its));
    NUMA_MAPS.lines().forEach(flags::addPolicy);
    SMAPS.lines().forEach(flags::add);
    assertEquals(
        Map.of(
            0x7f0000000000L, Set.of("rd", "wr", "mr", "mw", "me", "ac", "sd"),
            0x7f0000100000L, Set.of("rd", "wr", "hg", MappingFlags.KEY),
            0x7f0000200000L, Set.of("rd", "wr", MappingFlags.POLICY)),
        found);
  }

  @Test
  void thisProcessHasFlags() {
    List<Set<String>> found = new ArrayList<>();
    MappingFlags.of(
        Math.toIntExact(ProcessHandle.current().pid()), (mapping, flags) -> found.add(flags));
    assertEquals(List.of(), found.stream().filter(Set::isEmpty).toList());
  }
}
