package dev.gpuprocess.internal.handover;

import dev.gpuprocess.internal.proc.AddressRange;
import dev.gpuprocess.internal.proc.HandedOver;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.MappingFlags;
import dev.gpuprocess.internal.proc.ProcFs;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;

/**
 * Finds the memory that is to be handed over: what the driver mapped for the GPU memory of a
 * process, as far as it is plain memory now, and all that an earlier hand-over mapped, since an
 * image must not need the file of another.
 *
 * <p>Nothing else is touched. The program does not know the address of the driver's memory, so it
 * neither unmaps it nor has the kernel write it (asynchronous I/O, {@code vmsplice}). Any other
 * memory may be changed by the program at every moment, and some of that cannot be seen from
 * outside.
 */
final class SaveAreas {

  /** Below this CRIU is as good. The smallest save area that was seen on an H200 has 527 MiB. */
  static final long SMALLEST_BYTES = 1 << 20;

  /**
   * The flags of memory that another mapping can replace without anybody noticing: readable,
   * writable, may be made so; accounted; not reserved; soft-dirty; huge pages wanted, as populating
   * ahead does.
   */
  private static final Set<String> PLAIN =
      Set.of("rd", "wr", "mr", "mw", "me", "ac", "sd", "nr", "hg");

  private SaveAreas() {}

  /**
   * Returns the memory that may be handed over. {@link #stillThere} decides when the process is
   * held.
   *
   * @param mapped by the driver
   * @return ordered by address
   * @throws dev.gpuprocess.error.ProcessUnreadableException when the mappings may not be read
   */
  static List<AddressRange> planned(int pid, List<AddressRange> mapped) {
    Finder finder = new Finder(mapped);
    ProcFs.memory(pid, mapping -> finder.add(mapping, Set.of()));
    return finder.found();
  }

  /**
   * Returns the memory that can be handed over. To be called while all threads of the process are
   * held. Memory that has changed is left out: CRIU dumps it.
   *
   * @param planned see {@link #planned}
   * @return ordered by address
   * @throws dev.gpuprocess.error.ProcessUnreadableException when the mappings may not be read
   */
  static List<AddressRange> stillThere(int pid, List<AddressRange> planned) {
    Finder finder = new Finder(planned);
    MappingFlags.of(pid, finder::add);
    return finder.found();
  }

  /** The kernel splits and joins mappings, so the driver's memory is known by its addresses. */
  private static final class Finder {

    private final List<AddressRange> mapped;
    private final List<AddressRange> found = new ArrayList<>();
    private final List<AddressRange> handedOver = new ArrayList<>();

    private Finder(List<AddressRange> mapped) {
      this.mapped = mapped;
    }

    private void add(Mapping mapping, Set<String> flags) {
      if (HandedOver.is(mapping)) {
        found.add(mapping.addresses());
        handedOver.add(mapping.addresses());
      } else if (mapping.isPrivateWritable()
          && mapping.isUnnamedMemory()
          && PLAIN.containsAll(flags)) {
        mapped.forEach(area -> area.and(mapping.addresses()).ifPresent(found::add));
      }
    }

    private List<AddressRange> found() {
      return AddressRange.joined(found).stream()
          .filter(each -> each.bytes() >= SMALLEST_BYTES || isIn(each, handedOver))
          .toList();
    }
  }

  private static boolean isIn(AddressRange range, List<AddressRange> others) {
    return others.stream().anyMatch(other -> other.and(range).isPresent());
  }
}
