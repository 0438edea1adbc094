package dev.gpuprocess.internal.proc;

import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.BiConsumer;
import org.jspecify.annotations.Nullable;

/**
 * The flags of mappings ({@code VmFlags} in {@code /proc/PID/smaps}), two letters each, and {@link
 * #KEY} and {@link #POLICY}.
 */
public final class MappingFlags {

  /** The mapping has a protection key other than 0. */
  public static final String KEY = "protection key";

  /** The mapping, or its process, has a NUMA policy other than the default. */
  public static final String POLICY = "NUMA policy";

  private static final String FLAGS = "VmFlags:";
  private static final String PROTECTION_KEY = "ProtectionKey:";
  private static final String DEFAULT = "default";

  private final BiConsumer<Mapping, Set<String>> each;

  /** The first addresses of mappings with a NUMA policy. */
  private final Set<Long> policies = new HashSet<>();

  private @Nullable Mapping current;
  private boolean hasKey;

  MappingFlags(BiConsumer<Mapping, Set<String>> each) {
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
    Path process = Path.of("/proc", Integer.toString(pid));
    // A kernel without NUMA has no such file.
    ProcFile.lines(process.resolve("numa_maps"), flags::addPolicy);
    ProcFile.lines(process.resolve("smaps"), flags::add);
  }

  /** {@code 7f0000000000 bind:0 anon=1 ...}. */
  void addPolicy(String line) {
    String[] words = line.split(" ", 3);
    if (words.length > 1 && !words[1].equals(DEFAULT)) {
      policies.add(Long.parseUnsignedLong(words[0], 16));
    }
  }

  void add(String line) {
    Mapping mapping = current;
    if (mapping != null && line.startsWith(PROTECTION_KEY)) {
      hasKey = !line.substring(PROTECTION_KEY.length()).strip().equals("0");
    } else if (mapping != null && line.startsWith(FLAGS)) {
      each.accept(mapping, flags(mapping, line.substring(FLAGS.length()).strip().split(" +")));
      current = null;
      hasKey = false;
    } else {
      Mapping.parse(line).ifPresent(found -> current = found);
    }
  }

  private Set<String> flags(Mapping mapping, String... letters) {
    Set<String> flags = new HashSet<>(List.of(letters));
    if (hasKey) {
      flags.add(KEY);
    }
    if (policies.contains(mapping.start())) {
      flags.add(POLICY);
    }
    return flags;
  }
}
