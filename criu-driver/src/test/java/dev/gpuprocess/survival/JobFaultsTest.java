package dev.gpuprocess.survival;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.Figures;
import dev.gpuprocess.survival.JobFaultRunner.Result;
import java.nio.file.Path;
import java.time.LocalDate;
import java.time.ZoneOffset;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Some of {@code bin/job-test faults}: another share each day, or that of the system property
 * {@code gpuprocess.job.faults}; {@code all} plays all.
 */
class JobFaultsTest {

  private static final int STRIDE = 16;

  @TempDir Path directory;

  @Test
  @Timeout(value = 20, unit = TimeUnit.MINUTES)
  void nothingIsLost() throws Exception {
    assertTrue(JobFaultCase.all().size() >= 300, JobFaultCase.all().size() + " cases");
    List<JobFaultCase> cases = cases();
    List<Result> results = JobFaults.play(directory, cases);
    assertFalse(cases.isEmpty());
    assertEquals(cases.size(), results.size());
    Figures.add(JobFaults.figure(results));
    assertEquals(List.of(), results.stream().filter(result -> !result.isGood()).toList());
  }

  private static List<JobFaultCase> cases() {
    String wanted = System.getProperty("gpuprocess.job.faults", "");
    if (wanted.equals("all")) {
      return JobFaultCase.all();
    }
    long share =
        wanted.isEmpty() ? LocalDate.now(ZoneOffset.UTC).toEpochDay() : Long.parseLong(wanted);
    return JobFaults.share(Math.floorMod(share, STRIDE), STRIDE);
  }
}
