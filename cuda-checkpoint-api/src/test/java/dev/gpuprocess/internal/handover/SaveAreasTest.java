package dev.gpuprocess.internal.handover;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.internal.proc.AddressRange;
import dev.gpuprocess.internal.proc.HandedOver;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Memory that is or was handed over is known by its addresses, and by the name of its file. */
class SaveAreasTest {

  private static final long MIB = 1 << 20;

  private static AddressRange range(long fromMib, long toMib) {
    return new AddressRange(fromMib * MIB, toMib * MIB);
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
