package dev.gpuprocess.internal.doctor;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.report.Finding;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.Test;

/** A check that hangs is a finding; its late findings are dropped. */
class CheckupTest {

  private final Checkup checkup = new Checkup();

  @Test
  @OutsideUse("A20")
  void reportsAFileSystemThatHangs() {
    CountDownLatch answers = new CountDownLatch(1);
    checkup.ok("before", "fine");
    checkup.look(
        "directory",
        Duration.ofMillis(200),
        () -> {
          await(answers);
          checkup.ok("directory", "can be written");
        });
    checkup.look("after", Duration.ofSeconds(10), () -> checkup.ok("after", "fine"));
    answers.countDown();
    Workload.await(() -> GpuCheckpoints.abandonedCalls() == 0, "the late answer");
    List<Finding> findings = checkup.diagnosis().findings();
    assertEquals(
        List.of("before", "directory", "after"), findings.stream().map(Finding::subject).toList());
    assertTrue(findings.get(1).isProblem());
    assertTrue(findings.get(1).what().contains("does not answer"), findings.get(1).what());
  }

  private static void await(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }
}
