package dev.gpuprocess.internal.handover;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.internal.proc.AddressRange;
import dev.gpuprocess.internal.proc.HandedOver;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;

/** Two readings of a process's memory tell what appeared between them. */
class SaveAreasTest {

  private static final long MIB = 1 << 20;

  private static AddressRange range(long fromMib, long toMib) {
    return new AddressRange(fromMib * MIB, toMib * MIB);
  }

  private static List<AddressRange> appeared(List<AddressRange> before, List<AddressRange> after) {
    return SaveAreas.appeared(Optional.of(before), Optional.of(after));
  }

  @Test
  void whatIsNewIsFoundAlsoWhereTheKernelMergedItWithANeighbour() {
    List<AddressRange> before = List.of(range(10, 20), range(60, 70));
    assertEquals(List.of(range(40, 60)), appeared(before, List.of(range(10, 20), range(40, 70))));
    assertEquals(List.of(range(20, 60)), appeared(before, List.of(range(10, 70))));
    assertEquals(
        List.of(range(5, 10), range(70, 80)),
        appeared(before, List.of(range(5, 20), range(60, 80))));
  }

  @Test
  void whatWasThereOrIsSmallIsNot() {
    List<AddressRange> before = List.of(range(10, 20));
    assertEquals(List.of(), appeared(before, List.of(range(12, 15))));
    AddressRange small = new AddressRange(0, MIB - 4096);
    assertEquals(List.of(), appeared(before, List.of(small)));
    assertEquals(
        List.of(), SaveAreas.appeared(Optional.empty(), Optional.of(List.of(range(1, 9)))));
  }

  @Test
  void rangesSurviveAsText() {
    List<AddressRange> ranges =
        List.of(range(1, 2), new AddressRange(0x7f0000000000L, 0x7f0040000000L));
    assertEquals(ranges, AddressRange.parse(AddressRange.text(ranges)));
    assertEquals(List.of(), AddressRange.parse(""));
    for (String wrong : List.of("x", "1-", "5-5", "6-5", "1-2,", "-1-5", "1-2-3")) {
      assertThrows(IllegalArgumentException.class, () -> AddressRange.parse(wrong), wrong);
    }
  }

  @Test
  void filesOfHandOversAreKnownByName() {
    assertTrue(HandedOver.is("/i/.gpuprocess-1.partial/gpu/memory-1.bin"));
    assertTrue(HandedOver.is("/i/gpu/memory-1.bin (deleted)"));
    assertFalse(HandedOver.is("/usr/lib/libc.so.6"));
    assertFalse(HandedOver.is("/i/gpu/memory-1.bin.bak"));
  }
}
