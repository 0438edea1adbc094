package dev.gpuprocess.survival;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.Figures;
import dev.gpuprocess.criu.RealCriu;
import dev.gpuprocess.survival.Soak.Result;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A short {@code bin/soak}. */
class SoakTest {

  private static final Duration TIME = Duration.ofSeconds(10);
  private static final long SEED = 4;

  @TempDir Path directory;

  @Test
  @Timeout(value = 5, unit = TimeUnit.MINUTES)
  void nothingIsLostAndNothingLeaks() {
    RealCriu.assume();
    Result result = Soak.run(directory, TIME, SEED);
    Figures.add(result.figure());
    assertEquals(List.of(), result.violations(), result::toString);
    // A soak in which each verb is refused has no violations either.
    assertTrue(result.verbs() > 0, result::toString);
  }
}
