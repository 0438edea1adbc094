package dev.gpuprocess.examples.slot;

import dev.gpuprocess.slot.SlotEvent;
import dev.gpuprocess.slot.SlotProcess.Place;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * A chart of where the processes of a {@link dev.gpuprocess.GpuSlot} were, as text and as SVG: a
 * listener of the slot that keeps what it is notified of. Safe for use by several threads.
 */
public final class SlotTimeline implements Consumer<SlotEvent> {

  private static final int ROW = 24;
  private static final int LEFT = 80;
  private static final int WIDTH = 900;
  private static final String LEGEND = "# on GPU   - in host memory   . on disk   ! a move failed";

  /** A time at one place; null for a process that is not in the slot. */
  private record Stay(Instant from, @Nullable Place place) {}

  /** The stays of a process, and the times at which a move of it failed. */
  private static final class Row {
    private final List<Stay> stays = new ArrayList<>();
    private final List<Instant> failures = new ArrayList<>();

    @Nullable Place at(Instant moment) {
      Place place = null;
      for (Stay each : stays) {
        if (!each.from().isAfter(moment)) {
          place = each.place();
        }
      }
      return place;
    }
  }

  private final Map<Integer, Row> rows = new TreeMap<>();
  private @Nullable Instant first;
  private Instant last = Instant.EPOCH;

  /** Creates an empty chart. */
  public SlotTimeline() {}

  /**
   * Adds an event.
   *
   * @param event of the slot, not before those that were added
   */
  @Override
  public synchronized void accept(SlotEvent event) {
    if (first == null) {
      first = event.at();
    }
    last = event.at();
    Row row = rows.computeIfAbsent(event.process().pid(), none -> new Row());
    switch (event.kind()) {
      case STARTED -> row.stays.add(new Stay(event.at(), Place.GPU));
      case SUSPENDED, RESTORED -> row.stays.add(new Stay(event.at(), Place.HOST_MEMORY));
      case DUMPED -> row.stays.add(new Stay(event.at(), Place.DISK));
      case ENDED, REMOVED -> row.stays.add(new Stay(event.at(), null));
      case FAILED -> row.failures.add(event.at());
      case QUEUED, RELEASED, UNDUMPABLE -> {}
    }
  }

  /**
   * Draws the chart with characters: a line for each process, with its pid.
   *
   * @param columns how many characters the time from the first to the last event takes
   * @return lines, the last of which explains the characters; empty when nothing was added
   * @throws IllegalArgumentException when it is less than 1
   */
  public synchronized String text(int columns) {
    if (columns < 1) {
      throw new IllegalArgumentException("a chart needs at least one column, not " + columns);
    }
    Instant begin = first;
    if (begin == null) {
      return "";
    }
    StringBuilder text = new StringBuilder();
    text.append(
        String.format(
            Locale.ROOT,
            "%.1f s from %s%n",
            Duration.between(begin, last).toMillis() / 1e3,
            begin));
    rows.forEach(
        (pid, row) -> {
          text.append(String.format(Locale.ROOT, "%8d ", pid));
          for (int i = 0; i < columns; i++) {
            text.append(character(row, moment(begin, i, columns), moment(begin, i + 1, columns)));
          }
          text.append('\n');
        });
    return text.append(LEGEND).append('\n').toString();
  }

  private Instant moment(Instant begin, int column, int columns) {
    return begin.plusNanos(
        Math.multiplyExact(Duration.between(begin, last).toNanos() / columns, column));
  }

  private static char character(Row row, Instant from, Instant to) {
    if (row.failures.stream().anyMatch(each -> !each.isBefore(from) && each.isBefore(to))) {
      return '!';
    }
    Place place = row.at(from.plus(Duration.between(from, to).dividedBy(2)));
    if (place == null) {
      return ' ';
    }
    return switch (place) {
      case GPU -> '#';
      case HOST_MEMORY -> '-';
      case DISK -> '.';
    };
  }

  /**
   * Draws the chart as an SVG document: a row for each process, with its pid.
   *
   * @return the document; without rows when nothing was added
   */
  public synchronized String svg() {
    StringBuilder svg = new StringBuilder();
    int height = ROW * (rows.size() + 2);
    svg.append(
        String.format(
            Locale.ROOT,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"12\">%n",
            LEFT + WIDTH + 20,
            height));
    Instant begin = first;
    int y = ROW / 2;
    if (begin != null) {
      for (Map.Entry<Integer, Row> each : rows.entrySet()) {
        svg.append(
            String.format(
                Locale.ROOT, "<text x=\"8\" y=\"%d\">%d</text>%n", y + ROW / 2, each.getKey()));
        draw(svg, begin, each.getValue(), y);
        y += ROW;
      }
      svg.append(
          String.format(
              Locale.ROOT,
              "<text x=\"%d\" y=\"%d\">0 s to %.1f s; green on GPU, yellow in host memory, grey on disk; a red line is a move that failed</text>%n",
              LEFT,
              y + ROW / 2,
              Duration.between(begin, last).toMillis() / 1e3));
    }
    return svg.append("</svg>\n").toString();
  }

  private void draw(StringBuilder svg, Instant begin, Row row, int y) {
    for (int i = 0; i < row.stays.size(); i++) {
      Stay stay = row.stays.get(i);
      Instant to = i + 1 < row.stays.size() ? row.stays.get(i + 1).from() : last;
      Place place = stay.place();
      if (place != null) {
        double from = x(begin, stay.from());
        svg.append(
            String.format(
                Locale.ROOT,
                "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>%n",
                from,
                y,
                x(begin, to) - from,
                ROW - 6,
                color(place)));
      }
    }
    for (Instant each : row.failures) {
      svg.append(
          String.format(
              Locale.ROOT,
              "<rect x=\"%.1f\" y=\"%d\" width=\"2\" height=\"%d\" fill=\"#c0392b\"/>%n",
              x(begin, each),
              y,
              ROW - 6));
    }
  }

  private double x(Instant begin, Instant moment) {
    double all = Math.max(1, Duration.between(begin, last).toNanos());
    return LEFT + WIDTH * Duration.between(begin, moment).toNanos() / all;
  }

  private static String color(Place place) {
    return switch (place) {
      case GPU -> "#2e9e5b";
      case HOST_MEMORY -> "#f2c14e";
      case DISK -> "#9aa0a6";
    };
  }
}
