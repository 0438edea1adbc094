package dev.gpuprocess.internal.proc;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
import java.util.regex.Pattern;

/**
 * The mappings by which a process has its GPU memory in files in memory, or in those of an image,
 * instead of in memory of its own.
 */
public final class SaveFileMappings {

  /** A file of an image, or one that had such a name for the time of a dump. */
  private static final Pattern NAMED =
      Pattern.compile(".*/gpu/memory-[0-9]{1,9}\\.bin( \\(deleted\\))?", Pattern.DOTALL);

  /** As the kernel shows a file that was made without a name. */
  private static final Pattern NAMELESS =
      Pattern.compile(".*/#[0-9]+ \\(deleted\\)", Pattern.DOTALL);

  private static final String DELETED = " (deleted)";

  private SaveFileMappings() {}

  /**
   * Whether it may be one, as far as its name tells: a program can have files without a name of its
   * own.
   */
  public static boolean is(Mapping mapping) {
    return mapping.permissions().startsWith("rw-")
        && mapping.inode() != 0
        && (isNameless(mapping.name())
            || (NAMED.matcher(mapping.name()).matches() && isPrivate(mapping)));
  }

  /**
   * Whether it is one.
   *
   * @param areas where the driver has saved GPU memory
   */
  public static boolean is(Mapping mapping, List<AddressRange> areas) {
    return is(mapping) && (!isNameless(mapping.name()) || isIn(mapping, areas));
  }

  private static boolean isIn(Mapping mapping, List<AddressRange> ranges) {
    return ranges.stream().anyMatch(range -> range.and(mapping.addresses()).isPresent());
  }

  private static boolean isPrivate(Mapping mapping) {
    return mapping.permissions().endsWith("p");
  }

  /** Whether a file has the name of one, as the kernel shows it or without what that adds. */
  public static boolean isName(String name) {
    return NAMED.matcher(name).matches() || isNameless(name) || isNameless(name + DELETED);
  }

  /** Whether a file has no name. */
  public static boolean isNameless(String name) {
    return NAMELESS.matcher(name).matches();
  }

  /** Whether a file has no name any more, or never had one. */
  public static boolean isDeleted(String name) {
    return name.endsWith(DELETED);
  }

  /**
   * How much memory a process may have in them, in bytes, as far as their names tell.
   *
   * @throws dev.gpuprocess.error.ProcessUnreadableException when the mappings may not be read
   */
  public static long bytes(int pid) {
    return candidates(pid).stream().mapToLong(each -> each.addresses().bytes()).sum();
  }

  /**
   * Finds those that may be such mappings, as far as their names tell.
   *
   * @throws dev.gpuprocess.error.ProcessUnreadableException when the mappings may not be read
   */
  public static List<Mapping> candidates(int pid) {
    return matching(pid, SaveFileMappings::is);
  }

  /**
   * Finds them.
   *
   * @param areas where the driver has saved GPU memory
   * @throws dev.gpuprocess.error.ProcessUnreadableException when the mappings may not be read
   */
  public static List<Mapping> of(int pid, List<AddressRange> areas) {
    return matching(pid, mapping -> is(mapping, areas));
  }

  private static List<Mapping> matching(int pid, Predicate<Mapping> wanted) {
    List<Mapping> found = new ArrayList<>();
    ProcFs.memory(
        pid,
        mapping -> {
          if (wanted.test(mapping)) {
            found.add(mapping);
          }
        });
    return found;
  }

  /**
   * Whether a process has written to what it has privately from such files, so that the files no
   * longer have all of its bytes. The kernel counts pages for that.
   *
   * @param mappings of the process
   * @throws dev.gpuprocess.error.ProcessUnreadableException when it may not be read
   */
  public static boolean haveOwnPages(int pid, List<Mapping> mappings) {
    OwnPages counted =
        new OwnPages(
            mappings.stream().filter(SaveFileMappings::isPrivate).map(Mapping::addresses).toList());
    ProcFile.lines(ProcFs.file(pid, "smaps"), counted::add);
    return counted.found;
  }

  private static final class OwnPages {

    private static final String ANONYMOUS = "Anonymous:";
    private static final String SWAP = "Swap:";
    private static final Pattern NONE = Pattern.compile("\\S+\\s+0 kB");

    private final List<AddressRange> ranges;
    private boolean counts;
    private boolean found;

    private OwnPages(List<AddressRange> ranges) {
      this.ranges = ranges;
    }

    private void add(String line) {
      if (line.startsWith(ANONYMOUS) || line.startsWith(SWAP)) {
        found |= counts && !NONE.matcher(line.strip()).matches();
      } else {
        Mapping.parse(line).ifPresent(mapping -> counts = is(mapping) && isIn(mapping, ranges));
      }
    }
  }
}
