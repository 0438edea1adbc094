package dev.gpuprocess.internal.proc;

import java.nio.file.Path;
import java.util.Optional;
import java.util.Set;
import java.util.function.BiConsumer;
import org.jspecify.annotations.Nullable;

/** The flags of mappings ({@code VmFlags} in {@code /proc/PID/smaps}), two letters each. */
public final class MappingFlags {

  private static final String FLAGS = "VmFlags:";

  private final BiConsumer<Mapping, Set<String>> each;
  private @Nullable Mapping current;

  private MappingFlags(BiConsumer<Mapping, Set<String>> each) {
    this.each = each;
  }

  /**
   * Visits the mappings of a process. The kernel counts the pages of each, which takes it some
   * milliseconds for a GiB.
   *
   * @param pid the process
   * @param each called with each mapping and its flags, ordered by address
   * @throws dev.gpuprocess.error.ProcessUnreadableException when they may not be read
   */
  public static void of(int pid, BiConsumer<Mapping, Set<String>> each) {
    MappingFlags flags = new MappingFlags(each);
    ProcFile.lines(Path.of("/proc", Integer.toString(pid), "smaps"), flags::add);
  }

  private void add(String line) {
    if (current != null && line.startsWith(FLAGS)) {
      each.accept(current, Set.of(line.substring(FLAGS.length()).strip().split(" +")));
      current = null;
      return;
    }
    Optional<Mapping> mapping = Mapping.parse(line);
    if (mapping.isPresent()) {
      current = mapping.get();
    }
  }
}
