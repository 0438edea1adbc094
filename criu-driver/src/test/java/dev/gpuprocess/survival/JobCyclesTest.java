package dev.gpuprocess.survival;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.gpuprocess.contract.Figures;
import dev.gpuprocess.criu.RealCriu;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Two of the cycles of {@code bin/job-test cycles}. */
class JobCyclesTest {

  private static final int CYCLES = 2;

  @TempDir Path directory;

  @Test
  @Timeout(value = 10, unit = TimeUnit.MINUTES)
  void everyMessageIsAccountedFor() throws Exception {
    RealCriu.assume();
    List<String> faults = JobCycles.run(directory, CYCLES);
    Figures.add(JobCycles.figure(CYCLES, faults));
    assertEquals(List.of(), faults);
  }
}
