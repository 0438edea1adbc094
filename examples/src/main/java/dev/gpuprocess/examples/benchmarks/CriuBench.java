package dev.gpuprocess.examples.benchmarks;

import dev.gpuprocess.fixtures.ProgramRun;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * {@code CriuBench CRIU DIRECTORY ROUNDS MIB...}: measures a dump and a restore through this
 * library, durable and verified, and by the bare command with a sync of its files. The contenders
 * take turns, each with a new process that holds the given amount of random bytes.
 */
public final class CriuBench {

  private final Path directory;
  private final int rounds;
  private final List<Contender> contenders;

  private CriuBench(Path directory, int rounds, List<Contender> contenders) {
    this.directory = directory;
    this.rounds = rounds;
    this.contenders = contenders;
  }

  /**
   * Measures and prints.
   *
   * @param args the CRIU program, a directory for images, the number of rounds, the sizes in MiB
   * @throws IOException if a program cannot be started
   * @throws InterruptedException if interrupted
   */
  public static void main(String[] args) throws IOException, InterruptedException {
    Path criu = Path.of(args[0]);
    List<Contender> contenders = new ArrayList<>(List.of(new BareCommand(criu), new Library(criu)));
    if (PyCriu.isInstalled()) {
      contenders.add(new PyCriu(criu));
    }
    CriuBench bench = new CriuBench(Path.of(args[1]), Integer.parseInt(args[2]), contenders);
    for (String size : List.of(args).subList(3, args.length)) {
      bench.measure(Integer.parseInt(size));
    }
  }

  private void measure(int mebibytes) throws IOException, InterruptedException {
    List<Row> rows = contenders.stream().map(Row::new).toList();
    for (int round = 0; round < rounds; round++) {
      for (int i = 0; i < rows.size(); i++) {
        // The order changes, so that no contender always follows the same one.
        cycle(rows.get((i + round) % rows.size()), mebibytes);
      }
    }
    System.out.printf("%s MiB, %s rounds, seconds: median (least-most)%n", mebibytes, rounds);
    System.out.printf("  %-20s%20s%8s%20s%8s%n", "", "dump", "ratio", "restore", "ratio");
    Row bare = rows.get(0);
    for (Row row : rows) {
      System.out.printf(
          Locale.ROOT,
          "  %-20s%20s%8.3f%20s%8.3f%n",
          row.contender,
          text(row.dumps),
          median(row.dumps) / median(bare.dumps),
          text(row.restores),
          median(row.restores) / median(bare.restores));
    }
    System.out.println("  load averages " + Files.readString(Path.of("/proc/loadavg")).strip());
  }

  private static double median(List<Double> seconds) {
    List<Double> sorted = seconds.stream().sorted().toList();
    int half = sorted.size() / 2;
    return sorted.size() % 2 == 1
        ? sorted.get(half)
        : (sorted.get(half - 1) + sorted.get(half)) / 2;
  }

  /** Returns the median, the least and the most, such as {@code 1.23 (1.20-1.30)}. */
  private static String text(List<Double> seconds) {
    List<Double> sorted = seconds.stream().sorted().toList();
    return String.format(
        Locale.ROOT,
        "%.2f (%.2f-%.2f)",
        median(sorted),
        sorted.get(0),
        sorted.get(sorted.size() - 1));
  }

  private record Row(Contender contender, List<Double> dumps, List<Double> restores) {
    Row(Contender contender) {
      this(contender, new ArrayList<>(), new ArrayList<>());
    }
  }

  private void cycle(Row row, int mebibytes) throws IOException, InterruptedException {
    Path place = Files.createTempDirectory(directory, "criu-bench");
    try (BenchSubject subject = BenchSubject.start(mebibytes)) {
      ProgramRun.of("sync", "-f", place.toString()).succeed();
      long begin = System.nanoTime();
      row.contender.dump(subject.pid(), place);
      long dumped = System.nanoTime();
      subject.awaitFree();
      long free = System.nanoTime();
      row.contender.restore(subject.pid(), place);
      long restored = System.nanoTime();
      subject.requireRestored();
      row.dumps.add((dumped - begin) / 1e9);
      row.restores.add((restored - free) / 1e9);
    } finally {
      ProgramRun.of("rm", "-rf", place.toString()).succeed();
    }
  }
}
