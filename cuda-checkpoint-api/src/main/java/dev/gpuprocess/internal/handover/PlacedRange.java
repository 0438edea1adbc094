package dev.gpuprocess.internal.handover;

import dev.gpuprocess.internal.proc.AddressRange;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * Memory of a process and its place in the file that takes it.
 *
 * @param range the memory
 * @param offset where it begins in the file
 */
record PlacedRange(AddressRange range, long offset) {

  /** Places ranges one after the other. */
  static List<PlacedRange> inTurn(List<AddressRange> ranges) {
    List<PlacedRange> placed = new ArrayList<>();
    long offset = 0;
    for (AddressRange range : ranges) {
      placed.add(new PlacedRange(range, offset));
      offset += range.bytes();
    }
    return placed;
  }

  /** Where it ends in the file. */
  long end() {
    return offset + range.bytes();
  }

  /** What of it is in a part of the file. */
  Optional<PlacedRange> in(long from, long to) {
    long begin = Math.max(offset, from);
    long end = Math.min(end(), to);
    return begin < end
        ? Optional.of(
            new PlacedRange(
                new AddressRange(range.start() + begin - offset, range.start() + end - offset),
                begin))
        : Optional.empty();
  }
}
