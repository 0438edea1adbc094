package dev.gpuprocess.survival;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.Figures;
import dev.gpuprocess.criu.RealCriu;
import dev.gpuprocess.survival.FaultCaseRunner.Result;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;

/**
 * Every fault at every moment of every verb, with real CRIU and the simulated driver. {@code
 * bin/fault-matrix} plays all cases; the build plays a sixteenth of them, chosen at random.
 */
class FaultMatrixTest {

  private static final boolean WHOLE = Boolean.getBoolean("gpuprocess.fault-matrix.whole");

  /**
   * The number of parts to which the cases are assigned in turn, so that each part has cases of
   * every row.
   */
  private static final int PARTS = 16;

  /** A case mostly waits: for deadlines, and for init to reap restored processes. */
  private static final int MACHINES = 4;

  @TempDir static Path directory;

  private static final List<FaultCaseRunner> ALL = new ArrayList<>();
  private static final BlockingQueue<FaultCaseRunner> FREE = new LinkedBlockingQueue<>();
  private static final List<Result> RESULTS = new ArrayList<>();
  private static final ExecutorService THREADS = Executors.newFixedThreadPool(MACHINES);
  private static int cases;
  private static int scenario;

  @TestFactory
  Stream<DynamicTest> nothingIsLost() {
    RealCriu.assume();
    for (int i = 0; i < MACHINES; i++) {
      ALL.add(new FaultCaseRunner(new SimulatedMachine(directory.resolve("machine" + i))));
    }
    FREE.addAll(ALL);
    List<FaultCase> matrix =
        Stream.of(Task.values())
            .flatMap(task -> FaultCase.of(task, ALL.get(0).rehearse(task)).stream())
            .toList();
    cases = matrix.size();
    assertTrue(cases >= 300, cases + " cases");
    List<FaultCase> chosen = WHOLE ? matrix : onePart(matrix);
    scenario = chosen.size();
    return chosen.stream().map(FaultMatrixTest::begin).toList().stream();
  }

  private static List<FaultCase> onePart(List<FaultCase> matrix) {
    int part = ThreadLocalRandom.current().nextInt(PARTS);
    return IntStream.range(0, matrix.size())
        .filter(i -> i % PARTS == part)
        .mapToObj(matrix::get)
        .toList();
  }

  /** Runs the case on one of the machines; the test reports the result. */
  private static DynamicTest begin(FaultCase one) {
    CompletableFuture<Result> result =
        CompletableFuture.supplyAsync(() -> playOnFreeMachine(one), THREADS);
    return DynamicTest.dynamicTest(
        one.toString(),
        () -> {
          Result got = result.join();
          RESULTS.add(got);
          assertEquals(List.of(), got.violations(), one::toString);
          assertNotEquals(Verdict.LOST, got.verdict(), one::toString);
        });
  }

  private static Result playOnFreeMachine(FaultCase one) {
    try {
      FaultCaseRunner trial = FREE.take();
      try {
        return trial.play(one);
      } finally {
        FREE.add(trial);
      }
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  @AfterAll
  static void tell() throws IOException {
    THREADS.shutdownNow();
    ALL.forEach(FaultCaseRunner::close);
    if (scenario == 0) {
      return;
    }
    String table = VerdictTable.of(RESULTS);
    Files.writeString(Path.of("target", "fault-matrix.txt"), table);
    // A case without a result is lost too.
    long lost = scenario - RESULTS.stream().filter(r -> r.verdict() != Verdict.LOST).count();
    Figures.add("fault matrix: %d of %d cases, %d lost".formatted(scenario, cases, lost));
  }
}
