package dev.gpuprocess.internal.attributes;

import dev.gpuprocess.internal.proc.AddressRange;
import dev.gpuprocess.internal.proc.MappingFlags;
import dev.gpuprocess.internal.proc.NumaPolicy;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.time.WorkLimit;
import dev.gpuprocess.options.Attribute;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.regex.Pattern;

/**
 * The attributes of a process that {@code /proc} shows.
 *
 * @param pid the process
 * @param personality the execution domain of the first thread; 0 for the usual one
 * @param merges whether KSM may merge its memory
 * @param sealed its sealed mappings
 * @param bound the mappings with a NUMA policy: their own, or that of the first thread
 */
record VisibleAttributes(
    int pid,
    long personality,
    boolean merges,
    List<AddressRange> sealed,
    List<AddressRange> bound) {

  private static final Pattern MERGES = Pattern.compile("(?m)^ksm_merge_any: yes$");
  private static final Pattern NUMBER = Pattern.compile("[0-9a-f]{1,16}");
  private static final String SEALED = "sl";
  private static final int HEX = 16;

  /**
   * Reads the attributes of a process.
   *
   * @throws dev.gpuprocess.internal.proc.ProcessUnreadableException when it may not be read
   */
  static VisibleAttributes of(int pid, WorkLimit limit) {
    Set<Long> policies = new HashSet<>();
    NumaPolicy.visit(
        pid,
        each -> {
          limit.check();
          if (!each.isDefault()) {
            policies.add(each.start());
          }
        });
    List<AddressRange> sealed = new ArrayList<>();
    List<AddressRange> bound = new ArrayList<>();
    MappingFlags.visit(
        pid,
        each -> {
          limit.check();
          if (!each.isOfKernel() && each.flags().contains(SEALED)) {
            sealed.add(each.mapping().addresses());
          }
          if (!each.isOfKernel() && policies.contains(each.mapping().start())) {
            bound.add(each.mapping().addresses());
          }
        });
    return new VisibleAttributes(
        pid,
        personality(pid),
        ProcFs.read(pid, "ksm_stat").filter(text -> MERGES.matcher(text).find()).isPresent(),
        List.copyOf(sealed),
        List.copyOf(bound));
  }

  /** Returns the execution domain of a thread. */
  static long personality(int task) {
    return ProcFs.read(task, "personality")
        .map(String::strip)
        .filter(text -> NUMBER.matcher(text).matches())
        .map(text -> Long.parseUnsignedLong(text, HEX))
        .orElse(0L);
  }

  /** Returns them as attributes that an image lacks. */
  List<FoundAttribute> found() {
    List<FoundAttribute> found = new ArrayList<>();
    if (!sealed.isEmpty()) {
      found.add(new FoundAttribute(Attribute.SEALED_MEMORY, pid, "has sealed mappings"));
    }
    if (!bound.isEmpty()) {
      found.add(new FoundAttribute(Attribute.NUMA_POLICY, pid, "has a NUMA policy"));
    }
    if (personality != 0) {
      found.add(
          new FoundAttribute(
              Attribute.PERSONALITY,
              pid,
              "has the personality 0x" + Long.toHexString(personality)));
    }
    if (merges) {
      found.add(new FoundAttribute(Attribute.MEMORY_MERGE, pid, "lets KSM merge its memory"));
    }
    return found;
  }
}
