package dev.gpuprocess.survival;

import dev.gpuprocess.survival.FaultCaseRunner.Result;
import java.util.Comparator;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Prints the results: a line for each moment, a column for each fault, a letter for each case. */
final class VerdictTable {

  private static final int SLOWEST = 5;

  private VerdictTable() {}

  static String of(List<Result> results) {
    Map<String, Map<String, Result>> rows = new LinkedHashMap<>();
    Set<String> columns = new LinkedHashSet<>();
    for (Result result : results) {
      String column = result.scenario().injected().name();
      columns.add(column);
      rows.computeIfAbsent(result.scenario().row(), row -> new LinkedHashMap<>())
          .put(column, result);
    }
    int width = rows.keySet().stream().mapToInt(String::length).max().orElse(0);
    StringBuilder text = new StringBuilder();
    int number = 0;
    for (String column : columns) {
      text.append("%2d %s%n".formatted(++number, column));
    }
    text.append('\n').append(legend()).append('\n');
    text.append(" ".repeat(width + 1));
    for (int i = 1; i <= number; i++) {
      text.append("%3d".formatted(i));
    }
    text.append('\n');
    rows.forEach((row, cells) -> text.append(line(row, width, columns, cells)));
    return text.append('\n')
        .append(counts(results))
        .append("\nslowest:\n")
        .append(slowest(results))
        .toString();
  }

  private static String line(
      String row, int width, Set<String> columns, Map<String, Result> cells) {
    return row
        + " ".repeat(width + 1 - row.length())
        + columns.stream()
            .map(column -> cells.containsKey(column) ? "  " + cell(cells.get(column)) : "  .")
            .collect(Collectors.joining())
        + "\n";
  }

  private static char cell(Result result) {
    return result.verdict() == Verdict.LOST || result.violations().isEmpty()
        ? result.verdict().letter
        : '!';
  }

  private static String legend() {
    return Stream.of(Verdict.values())
        .map(verdict -> "%c %s%n".formatted(verdict.letter, verdict.meaning))
        .collect(Collectors.joining());
  }

  private static String counts(List<Result> results) {
    Map<Verdict, Long> counts =
        results.stream()
            .collect(
                Collectors.groupingBy(
                    Result::verdict, () -> new EnumMap<>(Verdict.class), Collectors.counting()));
    return counts.toString().toLowerCase(Locale.ROOT) + "\n";
  }

  /** Where the time goes. */
  private static String slowest(List<Result> results) {
    return results.stream()
        .sorted(Comparator.comparing(Result::time).reversed())
        .limit(SLOWEST)
        .map(result -> "%6d ms  %s%n".formatted(result.time().toMillis(), result.scenario()))
        .collect(Collectors.joining());
  }
}
