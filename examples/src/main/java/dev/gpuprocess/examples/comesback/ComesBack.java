package dev.gpuprocess.examples.comesback;

import dev.gpuprocess.examples.comesback.Outcome.Verdict;
import dev.gpuprocess.fixtures.AttributeProcess;
import java.io.IOException;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Predicate;
import java.util.stream.LongStream;

/**
 * {@code ComesBack N SEED}: N random cases; the case of number K has the seed SEED + K and can be
 * run alone by that. Signals and restores processes: run it in a pid namespace of its own.
 */
public final class ComesBack {

  private ComesBack() {}

  /**
   * Plays cases and exits.
   *
   * @param args the number of cases, the first seed, and attributes that no case has, if any
   */
  public static void main(String[] args) throws IOException, InterruptedException {
    int count = Integer.parseInt(args[0]);
    long seed = Long.parseLong(args[1]);
    List<String> names = new ArrayList<>(AttributeProcess.names());
    names.removeAll(List.of(args).subList(2, args.length));
    List<Combination> cases =
        LongStream.range(seed, seed + count).mapToObj(each -> Combination.of(each, names)).toList();
    System.exit(play(cases, System.out) ? 0 : 1);
  }

  /**
   * Plays cases and prints what became of each, and the figure as the last line.
   *
   * @return whether no process was lost and none changed unsaid
   */
  static boolean play(List<Combination> cases, PrintStream out)
      throws IOException, InterruptedException {
    Map<Verdict, Integer> counts = new EnumMap<>(Verdict.class);
    List<String> bad = new ArrayList<>();
    try (CaseRunner runner = new CaseRunner()) {
      for (Combination one : cases) {
        long start = System.nanoTime();
        Outcome outcome = runner.play(one);
        String line =
            "%s: %s %s"
                .formatted(
                    outcome.verdict().name().toLowerCase(Locale.ROOT).replace('_', ' '),
                    one,
                    outcome.text().replaceAll("\\s+", " "))
                .strip();
        out.printf("%s (%s ms)%n", line, (System.nanoTime() - start) / 1_000_000);
        counts.merge(outcome.verdict(), 1, Integer::sum);
        if (!outcome.verdict().isGood()) {
          bad.add(line);
        }
      }
    }
    out.println();
    bad.forEach(out::println);
    out.println(figure(counts));
    return bad.isEmpty();
  }

  private static String figure(Map<Verdict, Integer> counts) {
    return "comes back: %s accepted, %s came back, %s refused beforehand, %s lost, %s changed unsaid"
        .formatted(
            sum(counts, Verdict::isAccepted),
            sum(counts, Verdict::isBack),
            counts.getOrDefault(Verdict.REFUSED, 0),
            counts.getOrDefault(Verdict.LOST, 0),
            counts.getOrDefault(Verdict.CHANGED, 0));
  }

  private static int sum(Map<Verdict, Integer> counts, Predicate<Verdict> which) {
    return counts.entrySet().stream()
        .filter(each -> which.test(each.getKey()))
        .mapToInt(Map.Entry::getValue)
        .sum();
  }
}
