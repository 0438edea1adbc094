package dev.gpuprocess.survival;

import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The task of a controller in a round.
 *
 * @param seed the seed of its random numbers
 * @param millis the length of the round
 * @param pids the processes of all controllers
 * @param quiet the pid of its quiet process; 0 for none
 * @param crowd the processes on the full GPU
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

  /** Returns the processes that a reader inspects. */
  List<Integer> all() {
    return Stream.concat(pids.stream(), Stream.of(quiet)).filter(pid -> pid > 0).toList();
  }
}
