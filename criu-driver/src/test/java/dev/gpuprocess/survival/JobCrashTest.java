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

/** Some of the kills of {@code bin/job-test crash}. */
class JobCrashTest {

  private static final int KILLS = Integer.getInteger("gpuprocess.job.kills", 3);
  private static final long SEED = 4;

  @TempDir Path directory;

  @Test
  @Timeout(value = 20, unit = TimeUnit.MINUTES)
  void whatAKilledControllerLeavesIsMended() throws Exception {
    RealCriu.assume();
    List<String> faults = JobCrash.run(directory, KILLS, SEED);
    Figures.add(JobCrash.figure(KILLS, faults));
    assertEquals(List.of(), faults);
  }
}
