package dev.gpuprocess.survival;

import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * What a controller is told to do in a round.
 *
 * @param seed of its randomness
 * @param millis how long
 * @param pids of the processes that everybody works on
 * @param quiet the pid of its quiet job, 0 if it has none
 * @param crowd of the jobs on the full GPU
 */
record SoakOrder(long seed, long millis, List<Integer> pids, int quiet, List<Integer> crowd) {

  private static final String NONE = "-";

  /** One line. */
  String line() {
    return String.join(
        " ",
        Long.toString(seed),
        Long.toString(millis),
        join(pids),
        Integer.toString(quiet),
        join(crowd));
  }

  /** Reads a line. */
  static SoakOrder read(String line) {
    List<String> words = List.of(line.split(" "));
    return new SoakOrder(
        Long.parseLong(words.get(0)),
        Long.parseLong(words.get(1)),
        split(words.get(2)),
        Integer.parseInt(words.get(3)),
        split(words.get(4)));
  }

  private static String join(List<Integer> numbers) {
    return numbers.isEmpty()
        ? NONE
        : numbers.stream().map(String::valueOf).collect(Collectors.joining(","));
  }

  private static List<Integer> split(String numbers) {
    return numbers.equals(NONE)
        ? List.of()
        : Stream.of(numbers.split(",")).map(Integer::valueOf).toList();
  }

  /** Whom a reader looks at. */
  List<Integer> all() {
    return Stream.concat(pids.stream(), Stream.of(quiet)).filter(pid -> pid > 0).toList();
  }
}
