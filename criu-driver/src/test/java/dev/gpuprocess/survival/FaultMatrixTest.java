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
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;

/** Every fault at every moment of every verb, with real CRIU and the simulated driver. */
class FaultMatrixTest {

  /** A case waits more than it works: for deadlines, and for init to collect what was restored. */
  private static final int MACHINES = 4;

  @TempDir static Path directory;

  private static final List<FaultCaseRunner> ALL = new ArrayList<>();
  private static final BlockingQueue<FaultCaseRunner> FREE = new LinkedBlockingQueue<>();
  private static final List<Result> RESULTS = new ArrayList<>();
  private static final ExecutorService THREADS = Executors.newFixedThreadPool(MACHINES);
  private static int cases;

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
    return matrix.stream().map(FaultMatrixTest::begin).toList().stream();
  }

  /** The case is played by one of the machines; the test reports what came of it. */
  private static DynamicTest begin(FaultCase played) {
    CompletableFuture<Result> result =
        CompletableFuture.supplyAsync(() -> playOnFreeMachine(played), THREADS);
    return DynamicTest.dynamicTest(
        played.toString(),
        () -> {
          Result got = result.join();
          RESULTS.add(got);
          assertEquals(List.of(), got.complaints(), played::toString);
          assertNotEquals(Verdict.LOST, got.verdict(), played::toString);
        });
  }

  private static Result playOnFreeMachine(FaultCase played) {
    try {
      FaultCaseRunner trial = FREE.take();
      try {
        return trial.play(played);
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
    if (cases == 0) {
      return;
    }
    String table = VerdictTable.of(RESULTS);
    Files.writeString(Path.of("target", "fault-matrix.txt"), table);
    long lost = cases - RESULTS.stream().filter(r -> r.verdict() != Verdict.LOST).count();
    Figures.add("fault matrix: %d cases, %d lost".formatted(cases, lost));
  }
}
