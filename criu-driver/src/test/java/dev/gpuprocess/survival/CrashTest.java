package dev.gpuprocess.survival;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.gpuprocess.contract.Figures;
import dev.gpuprocess.criu.RealCriu;
import dev.gpuprocess.survival.Crash.Result;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Some of the kills of {@code bin/crash-test}. */
class CrashTest {

  private static final int KILLS = 6;
  private static final long SEED = 4;

  @TempDir Path directory;

  @Test
  @Timeout(value = 10, unit = TimeUnit.MINUTES)
  void whatAKilledControllerLeavesIsMended() throws Exception {
    RealCriu.assume();
    List<Result> results = CrashRun.kill(directory, KILLS, SEED);
    Figures.add(CrashRun.figure(results));
    assertEquals(KILLS, results.size());
    assertEquals(List.of(), results.stream().filter(result -> !result.isGood()).toList());
  }
}
