package dev.gpuprocess.internal.handover;

import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.internal.proc.AddressRange;
import dev.gpuprocess.internal.proc.HandedOver;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.MappingFlags;
import dev.gpuprocess.internal.proc.ProcFs;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Finds the memory that the driver puts a process's GPU memory into: what appeared between lock and
 * checkpoint. The kernel merges it with its neighbours, so it is known by its addresses alone.
 */
public final class SaveAreas {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

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
   * The private unnamed memory of a process, adjoining mappings as one.
   *
   * @return empty when the mappings cannot be read: not to know them is no reason to stop a verb
   */
  public static Optional<List<AddressRange>> privateMemory(int pid) {
    List<AddressRange> found = new ArrayList<>();
    try {
      ProcFs.memory(
          pid,
          mapping -> {
            if (isMemory(mapping)) {
              found.add(mapping.addresses());
            }
          });
    } catch (ProcessUnreadableException e) {
      LOG.debug("the save area of process {} will not be known", pid, e);
      return Optional.empty();
    }
    return Optional.of(AddressRange.joined(found));
  }

  private static boolean isMemory(Mapping mapping) {
    return mapping.isPrivateWritable() && mapping.isUnnamedMemory();
  }

  /**
   * What is in the second of two {@linkplain #privateMemory readings} and not in the first.
   *
   * @return the large ones; empty when one of the readings failed
   */
  public static List<AddressRange> appeared(
      Optional<List<AddressRange>> before, Optional<List<AddressRange>> after) {
    if (before.isEmpty() || after.isEmpty()) {
      return List.of();
    }
    return AddressRange.difference(after.get(), before.get()).stream()
        .filter(each -> each.bytes() >= SMALLEST_BYTES)
        .toList();
  }

  /**
   * What a dump should hand over: those of the known areas that are still plain memory, and all
   * that an earlier hand-over mapped, since an image must not need the file of another.
   *
   * @param known the areas, as noted at the checkpoint
   * @return ordered by address
   * @throws dev.gpuprocess.error.ProcessUnreadableException when the mappings may not be read
   */
  static List<AddressRange> toHandOver(int pid, List<AddressRange> known) {
    List<AddressRange> found = new ArrayList<>();
    List<AddressRange> handedOver = new ArrayList<>();
    MappingFlags.of(
        pid,
        (mapping, flags) -> {
          if (HandedOver.is(mapping)) {
            found.add(mapping.addresses());
            handedOver.add(mapping.addresses());
          } else if (isMemory(mapping) && PLAIN.containsAll(flags)) {
            known.forEach(area -> area.and(mapping.addresses()).ifPresent(found::add));
          }
        });
    return AddressRange.joined(found).stream()
        .filter(each -> each.bytes() >= SMALLEST_BYTES || isIn(each, handedOver))
        .toList();
  }

  private static boolean isIn(AddressRange range, List<AddressRange> others) {
    return others.stream().anyMatch(other -> other.and(range).isPresent());
  }
}
