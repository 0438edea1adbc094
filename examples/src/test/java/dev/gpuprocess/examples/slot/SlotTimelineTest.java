package dev.gpuprocess.examples.slot;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.slot.SlotEvent;
import dev.gpuprocess.slot.SlotEvent.Kind;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** The chart of a slot, from events at known times. */
class SlotTimelineTest {

  private static final Instant BEGIN = Instant.parse("2026-11-25T12:00:00Z");

  private final SlotTimeline timeline = new SlotTimeline();

  private void add(int second, Kind kind, int pid) {
    timeline.accept(
        new SlotEvent(
            BEGIN.plusSeconds(second),
            kind,
            new ProcessIdentity(pid, 1),
            Set.of(),
            Duration.ZERO,
            null));
  }

  private void addAll() {
    add(0, Kind.QUEUED, 7);
    add(0, Kind.STARTED, 7);
    add(4, Kind.SUSPENDED, 7);
    add(4, Kind.STARTED, 8);
    add(6, Kind.DUMPED, 7);
    add(8, Kind.FAILED, 7);
    add(9, Kind.ENDED, 8);
    add(10, Kind.RELEASED, 7);
  }

  @Test
  void textHasALineForEachProcess() {
    addAll();
    assertEquals(
        List.of(
            "10.0 s from 2026-11-25T12:00:00Z",
            "       7 ####--..!.",
            "       8     ##### ",
            "# on GPU   - in host memory   . on disk   ! a move failed"),
        timeline.text(10).lines().toList());
    assertThrows(IllegalArgumentException.class, () -> timeline.text(0));
  }

  @Test
  void svgHasARectangleForEachStay() {
    addAll();
    String svg = timeline.svg();
    assertTrue(svg.contains("x=\"80.0\" y=\"12\" width=\"360.0\""), svg);
    assertEquals(4, svg.split("height=\"18\" fill=\"#[2f9]", -1).length - 1, svg);
    assertEquals(1, svg.split("#c0392b", -1).length - 1, svg);
    assertTrue(svg.endsWith("</svg>\n"), svg);
  }

  @Test
  void emptyChartIsEmpty() {
    assertEquals("", timeline.text(10));
    assertTrue(timeline.svg().startsWith("<svg "), timeline::svg);
  }
}
