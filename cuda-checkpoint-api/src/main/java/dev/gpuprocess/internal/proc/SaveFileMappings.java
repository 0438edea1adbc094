package dev.gpuprocess.internal.proc;

import java.util.List;
import java.util.function.Predicate;
import java.util.regex.Pattern;

/**
 * Mappings of files, in memory or of an image, that hold the GPU memory of a checkpointed process
 * instead of anonymous memory.
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
   * Returns whether a mapping may be one, judged by its name: a program can have nameless files
   * itself.
   */
  public static boolean is(Mapping mapping) {
    return mapping.permissions().startsWith("rw-")
        && mapping.inode() != 0
        && (isNameless(mapping.name())
            || (NAMED.matcher(mapping.name()).matches() && isPrivate(mapping)));
  }

  /**
   * Returns whether a mapping is one: of a file with such a name, or of a known file without one.
   */
  private static boolean is(Mapping mapping, Predicate<FileId> isKnown) {
    return is(mapping) && (!isNameless(mapping.name()) || isKnown.test(mapping.file()));
  }

  private static boolean isIn(Mapping mapping, List<AddressRange> ranges) {
    return ranges.stream().anyMatch(range -> range.and(mapping.addresses()).isPresent());
  }

  private static boolean isPrivate(Mapping mapping) {
    return mapping.permissions().endsWith("p");
  }

  /** Returns whether a file has such a name, with or without the kernel's suffix. */
  public static boolean isName(String name) {
    return NAMED.matcher(name).matches() || isNameless(name) || isNameless(name + DELETED);
  }

  /** Returns whether a file was created without a name. */
  public static boolean isNameless(String name) {
    return NAMELESS.matcher(name).matches();
  }

  /** Returns whether a file has no name any more, or never had one. */
  public static boolean isDeleted(String name) {
    return name.endsWith(DELETED);
  }

  /**
   * Returns how many bytes a process may have in such mappings, judged by their names.
   *
   * @throws ProcessUnreadableException when the mappings may not be read
   */
  public static long bytes(int pid) {
    return candidates(pid).stream().mapToLong(each -> each.addresses().bytes()).sum();
  }

  /**
   * Returns how many bytes the save areas of a process may have, zeros included, which are not in
   * the files: those are unnamed memory beside the mappings of the files.
   *
   * @throws ProcessUnreadableException when the mappings may not be read
   */
  public static long bytesOfAreas(int pid) {
    Areas areas = new Areas();
    ProcFs.memory(pid, areas::add);
    return areas.bytes();
  }

  private static final class Areas {

    private static final long HUGE_PAGE = 2 << 20;

    private long bytes;
    private long stretch;
    private long end;
    private boolean hasFile;

    private void add(Mapping mapping) {
      boolean isFile = is(mapping);
      boolean isZeros =
          mapping.isUnnamedMemory()
              && mapping.permissions().equals("rw-p")
              && mapping.start() % HUGE_PAGE == 0;
      if (mapping.start() != end || !(isFile || isZeros)) {
        bytes = bytes();
        stretch = 0;
        hasFile = false;
      }
      if (isFile || isZeros) {
        stretch += mapping.addresses().bytes();
        hasFile |= isFile;
        end = mapping.end();
      }
    }

    private long bytes() {
      return hasFile ? bytes + stretch : bytes;
    }
  }

  /**
   * Finds mappings that may be such, judged by their names.
   *
   * @throws ProcessUnreadableException when the mappings may not be read
   */
  public static List<Mapping> candidates(int pid) {
    return Mapping.of(pid, SaveFileMappings::is);
  }

  /**
   * Finds the mappings.
   *
   * @param isKnown whether a file without a name is a save file
   * @throws ProcessUnreadableException when the mappings may not be read
   */
  public static List<Mapping> of(int pid, Predicate<FileId> isKnown) {
    return Mapping.of(pid, mapping -> is(mapping, isKnown));
  }

  /**
   * Returns whether a process has written to private mappings of such files, so that the files no
   * longer have all of its bytes. The kernel counts such pages.
   *
   * @param mappings of the process
   * @throws ProcessUnreadableException when it may not be read
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
