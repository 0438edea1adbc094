package dev.gpuprocess.examples.benchmarks;

import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.fixtures.SimulatedDriver;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.openjdk.jmh.results.RunResult;
import org.openjdk.jmh.runner.Runner;
import org.openjdk.jmh.runner.RunnerException;
import org.openjdk.jmh.runner.options.OptionsBuilder;
import org.openjdk.jmh.runner.options.VerboseMode;

/**
 * {@code Bench JAVA_HOME...}: measures one call for the state of a process, through the library and
 * in C, on the same simulated driver and process, and the time from the start of a JVM to its first
 * state.
 */
public final class Bench {

  private static final String SIMCTL = "/dev/gpuprocess/fixtures/native/linux-x86_64/simctl";
  private static final int ROUNDS = 5;
  private static final int CALLS = 5_000;
  private static final int CALLS_WITHOUT_PROCESS = 1_000_000;
  private static final int STARTS = 11;

  private final SimulatedDriver driver;
  private final Counter counter;

  private Bench(SimulatedDriver driver, Counter counter) {
    this.driver = driver;
    this.counter = counter;
  }

  /**
   * Measures and prints.
   *
   * @param args the JDKs whose start is measured
   * @throws IOException if a program cannot be started
   * @throws RunnerException if the harness fails
   */
  public static void main(String[] args) throws IOException, RunnerException {
    try (SimulatedDriver driver = SimulatedDriver.create();
        Counter counter = Counter.start(driver)) {
      Bench bench = new Bench(driver, counter);
      bench.calls();
      bench.starts(args);
      System.out.println();
      System.out.println(
          "load averages during the run "
              + Files.readString(Path.of("/proc/loadavg")).strip()
              + ", on "
              + Runtime.getRuntime().availableProcessors()
              + " processors");
    }
  }

  /** Measures Java and C in turn, so that other load slows both. */
  private void calls() throws IOException, RunnerException {
    Path simctl = extractSimctl();
    Map<String, List<Double>> nanos = new LinkedHashMap<>();
    for (int round = 0; round < ROUNDS; round++) {
      add(nanos, "C", nanosInC(simctl, counter.pid(), CALLS));
      add(nanos, "C, no process", nanosInC(simctl, -1, CALLS_WITHOUT_PROCESS));
      for (RunResult result : harness().run()) {
        add(nanos, result.getPrimaryResult().getLabel(), result.getPrimaryResult().getScore());
      }
    }
    System.out.printf("one call, simulated driver, %s rounds%n", ROUNDS);
    System.out.printf("  %-20s%12s%12s%12s%12s%n", "", "median ns", "least", "most", "ratio to C");
    double c = median(nanos.getOrDefault("C", List.of()));
    double noProcess = median(nanos.getOrDefault("C, no process", List.of()));
    nanos.forEach((name, times) -> print(name, times, name.endsWith("obody") ? noProcess : c));
  }

  private static void add(Map<String, List<Double>> nanos, String name, double time) {
    nanos.computeIfAbsent(name, key -> new ArrayList<>()).add(time);
  }

  private static void print(String name, List<Double> times, double c) {
    System.out.printf(
        Locale.ROOT,
        "  %-20s%12.0f%12.0f%12.0f%12.3f%n",
        name,
        median(times),
        Collections.min(times),
        Collections.max(times),
        median(times) / c);
  }

  private static double median(List<Double> times) {
    return times.stream().sorted().skip(times.size() / 2).findFirst().orElseThrow();
  }

  private Path extractSimctl() throws IOException {
    Path simctl = driver.directory().resolve("simctl");
    try (InputStream in = Bench.class.getResourceAsStream(SIMCTL)) {
      if (in == null) {
        throw new IOException("the fixtures have no " + SIMCTL);
      }
      Files.copy(in, simctl);
    }
    return Files.setPosixFilePermissions(simctl, PosixFilePermissions.fromString("rwx------"));
  }

  private Runner harness() {
    return new Runner(
        new OptionsBuilder()
            .include(GetStateBenchmark.class.getName())
            .verbosity(VerboseMode.SILENT)
            .jvmArgsAppend(
                "-Dgpuprocess.driver.dir=" + driver.directory(), "-Dbench.pid=" + counter.pid())
            .build());
  }

  private double nanosInC(Path simctl, long pid, int calls) {
    String library = driver.libcuda().toString();
    String count = Integer.toString(calls);
    String printed =
        ProgramRun.of(simctl.toString(), "--lib", library, "time", count, Long.toString(pid))
            .succeed();
    return Double.parseDouble(printed.split(" ", 2)[0]);
  }

  private void starts(String... homes) {
    System.out.printf(
        Locale.ROOT, "%njava start to first state, median of %s    ms   empty main%n", STARTS);
    for (String home : homes) {
      double empty = medianStart(home, List.of());
      double first = medianStart(home, List.of(Long.toString(counter.pid())));
      System.out.printf(Locale.ROOT, "  %-36s%8.0f%13.0f%n", home, first, empty);
    }
  }

  private double medianStart(String home, List<String> arguments) {
    List<String> command =
        new ArrayList<>(
            List.of(
                Path.of(home, "bin", "java").toString(),
                "-cp",
                System.getProperty("java.class.path"),
                FirstState.class.getName()));
    command.addAll(arguments);
    List<Double> times = new ArrayList<>();
    for (int i = 0; i < STARTS; i++) {
      times.add(millisOf(command));
    }
    return median(times);
  }

  private double millisOf(List<String> command) {
    ProgramRun program =
        ProgramRun.of(command).with(Map.of("GPUPROCESS_DRIVER_DIR", driver.directory().toString()));
    long began = System.nanoTime();
    program.succeed();
    return (System.nanoTime() - began) / 1e6;
  }
}
