package dev.gpuprocess.internal.attributes;

import dev.gpuprocess.internal.proc.MappingFlags;
import dev.gpuprocess.internal.proc.NumaPolicy;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.time.WorkLimit;
import dev.gpuprocess.options.Attribute;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Pattern;

/** Reads the attributes of a process that {@code /proc} shows. */
final class VisibleAttributes {

  private static final Pattern NORMAL = Pattern.compile("0{1,8}");
  private static final Pattern MERGES = Pattern.compile("(?m)^ksm_merge_any: yes$");
  private static final String SEALED = "sl";

  private final int pid;
  private final WorkLimit limit;
  private final List<FoundAttribute> found = new ArrayList<>();

  private VisibleAttributes(int pid, WorkLimit limit) {
    this.pid = pid;
    this.limit = limit;
  }

  static List<FoundAttribute> of(int pid, WorkLimit limit) {
    VisibleAttributes attributes = new VisibleAttributes(pid, limit);
    attributes.lookAtFiles();
    attributes.lookAtSeals();
    attributes.lookAtPolicies();
    return attributes.found;
  }

  private void add(Attribute attribute, String what) {
    found.add(new FoundAttribute(attribute, pid, what));
  }

  private void lookAtFiles() {
    ProcFs.read(pid, "personality")
        .map(String::strip)
        .filter(text -> !text.isEmpty() && !NORMAL.matcher(text).matches())
        .ifPresent(text -> add(Attribute.PERSONALITY, "has the personality 0x" + text));
    ProcFs.read(pid, "ksm_stat")
        .filter(text -> MERGES.matcher(text).find())
        .ifPresent(text -> add(Attribute.MEMORY_MERGE, "lets KSM merge its memory"));
  }

  private void lookAtSeals() {
    AtomicLong sealed = new AtomicLong();
    MappingFlags.visit(
        pid,
        each -> {
          limit.check();
          if (each.flags().contains(SEALED) && !each.isOfKernel()) {
            sealed.incrementAndGet();
          }
        });
    if (sealed.get() > 0) {
      add(Attribute.SEALED_MEMORY, "has sealed mappings");
    }
  }

  private void lookAtPolicies() {
    Set<String> modes = new TreeSet<>();
    NumaPolicy.visit(
        pid,
        each -> {
          limit.check();
          if (!each.isDefault()) {
            modes.add(each.mode());
          }
        });
    if (!modes.isEmpty()) {
      add(Attribute.NUMA_POLICY, "has the NUMA policy " + String.join(", ", modes));
    }
  }
}
