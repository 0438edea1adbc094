package dev.gpuprocess.internal.proc;

import java.util.Optional;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * A mapping of a process with the kernel's flags ({@code VmFlags} in {@code /proc/PID/smaps}).
 *
 * @param mapping the mapping
 * @param flags two letters each, such as {@code sl} for a sealed mapping
 */
public record MappingFlags(Mapping mapping, Set<String> flags) {

  private static final String FLAGS = "VmFlags:";

  /**
   * Visits the mappings of a process. The kernel walks the page tables for it, which takes some
   * milliseconds for each GiB of small pages.
   *
   * @param each its exception ends the walk
   * @throws ProcessUnreadableException when the process may not be read
   */
  public static void visit(int pid, Consumer<MappingFlags> each) {
    AtomicReference<@Nullable Mapping> last = new AtomicReference<>();
    ProcFile.lines(
        ProcFs.file(pid, "smaps"),
        line -> {
          if (line.startsWith(FLAGS)) {
            Set<String> flags = Set.of(line.substring(FLAGS.length()).strip().split(" +"));
            Optional.ofNullable(last.getAndSet(null))
                .ifPresent(mapping -> each.accept(new MappingFlags(mapping, flags)));
          } else {
            Mapping.parse(line).ifPresent(last::set);
          }
        });
  }

  /** Returns whether the kernel made the mapping, such as the vDSO. */
  public boolean isOfKernel() {
    return mapping.name().startsWith("[v") || mapping.name().equals("[uprobes]");
  }
}
