package dev.gpuprocess.examples.bus;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** The table of all measurements. */
final class Table {

  private static final Size PREFERRED = Size.of("16g");

  private final List<Row> rows = new ArrayList<>();

  /**
   * A row.
   *
   * @param size the amount of GPU memory
   * @param what the measurement
   * @param raw seconds by the driver's calls and CRIU's command
   * @param library seconds by this library
   */
  private record Row(Size size, String what, double raw, double library) {

    boolean isAfter(Size other, Figure figure) {
      return size.equals(other)
          && Stream.of(Figure.values())
              .anyMatch(each -> each.row().equals(what) && each.compareTo(figure) > 0);
    }

    @Override
    public String toString() {
      return String.format(
          Locale.ROOT, "%-9s%-30s%9.2f%11.2f%8.2fx", size, what, raw, library, raw / library);
    }
  }

  /** Adds a row. The rows of one size are in the order of the figures. */
  void add(Size size, Figure figure, double raw, double library) {
    int at = rows.size();
    while (at > 0 && rows.get(at - 1).isAfter(size, figure)) {
      at--;
    }
    rows.add(at, new Row(size, figure.row(), raw, library));
  }

  /** Adds a row at the end. */
  void add(Size size, String what, double raw, double library) {
    rows.add(new Row(size, what, raw, library));
  }

  /** Returns the head and the rows. */
  String text() {
    String head =
        String.format(
            Locale.ROOT, "%-9s%-30s%9s%11s%9s", "size", "seconds", "raw", "library", "ratio");
    return rows.stream().map(row -> "\n" + row).collect(Collectors.joining("", head, ""));
  }

  /** Returns the size for the last line: 16 GiB, else the largest. */
  static Size mainOf(List<Size> sizes) {
    return sizes.contains(PREFERRED)
        ? PREFERRED
        : sizes.stream().max(Comparator.comparing(Size::mebibytes)).orElseThrow();
  }

  /** Returns the last line, with the figures that were measured. */
  String summary(Size size) {
    List<String> parts = new ArrayList<>();
    for (Figure figure : Figure.values()) {
      for (Row row : rows) {
        if (row.size.equals(size) && row.what.equals(figure.row())) {
          double number = figure.number(row.raw, row.library);
          parts.add(String.format(Locale.ROOT, figure.part(), number));
        }
      }
    }
    return "bus " + size + ": " + String.join(", ", parts);
  }
}
