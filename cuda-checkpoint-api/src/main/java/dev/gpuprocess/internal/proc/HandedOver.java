package dev.gpuprocess.internal.proc;

import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;

/**
 * The memory that a process has in files of hand-overs: what was in its own memory is in a file of
 * an image that it maps privately.
 */
public final class HandedOver {

  /** A file that a hand-over made, in an image of any name, removed since or not. */
  private static final Pattern FILE =
      Pattern.compile(".*/gpu/memory-[0-9]{1,9}\\.bin( \\(deleted\\))?", Pattern.DOTALL);

  private HandedOver() {}

  /**
   * Whether the process got it from a hand-over, in this life or in one before. A hand-over maps
   * privately, for reading and writing alone.
   */
  public static boolean is(Mapping mapping) {
    return mapping.permissions().equals("rw-p") && mapping.inode() != 0 && is(mapping.name());
  }

  /** Whether a file has the name of one that a hand-over made. */
  public static boolean is(String name) {
    return FILE.matcher(name).matches();
  }

  /**
   * How much of it a process has, in bytes.
   *
   * @throws dev.gpuprocess.error.ProcessUnreadableException when the mappings may not be read
   */
  public static long bytes(int pid) {
    return of(pid).stream().mapToLong(AddressRange::bytes).sum();
  }

  /**
   * Where a process has it.
   *
   * @throws dev.gpuprocess.error.ProcessUnreadableException when the mappings may not be read
   */
  public static List<AddressRange> of(int pid) {
    List<AddressRange> found = new ArrayList<>();
    ProcFs.memory(
        pid,
        mapping -> {
          if (is(mapping)) {
            found.add(mapping.addresses());
          }
        });
    return found;
  }
}
