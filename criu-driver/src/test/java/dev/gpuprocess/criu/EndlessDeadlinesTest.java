package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.criu.internal.rpc.RpcOptions;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.options.CriuOptions;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.options.ResumeOptions;
import java.nio.file.Path;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Dumps and restores without a deadline. */
@OutsideUse("A12")
class EndlessDeadlinesTest {

  private static final Duration FOREVER = ChronoUnit.FOREVER.getDuration();

  @TempDir Path directory;

  @BeforeEach
  void assumeCriu() {
    RealCriu.assume();
  }

  @Test
  void dumpRestoreSnapshotAndInsurance_withEndlessDeadlines_doWhatTheyDo() {
    DumpOptions dump =
        DumpOptions.builder().deadline(FOREVER).criu(c -> c.freezeTimeout(FOREVER)).build();
    RestoreOptions restore = RestoreOptions.builder().deadline(FOREVER).build();
    try (SimulatedDriver machine = SimulatedDriver.create();
        Counter counter = Counter.start(machine)) {
      GpuCheckpoints checkpoints =
          GpuCheckpoints.builder()
              .cuda(machine.directory())
              .stateDirectory(directory.resolve("state"))
              .build();
      checkpoints.process(counter.pid()).snapshot(directory.resolve("backup"), dump);
      assertEquals(101, counter.increment());
      CheckpointedProcess suspended = checkpoints.process(counter.pid()).suspend();
      ProcessImage image = suspended.dump(directory.resolve("image"), dump);
      image
          .restore(restore)
          .resume(ResumeOptions.builder().fallbackImage(directory.resolve("insurance")).build());
      assertEquals(102, counter.increment());
    }
  }

  @Test
  void deadline_isNeverPassedAndPollsInTurns() {
    for (Duration endless :
        List.of(FOREVER, Duration.ofMillis(Long.MAX_VALUE), Duration.ofNanos(Long.MAX_VALUE))) {
      Deadline deadline = Deadline.after(endless);
      assertFalse(deadline.passed());
      assertEquals(100, deadline.millis(100));
      assertTrue(deadline.total().compareTo(Duration.ofDays(1000)) > 0);
    }
  }

  @Test
  void freezeTimeout_staysInWhatCriuCanCount() {
    for (Duration endless : List.of(FOREVER, Duration.ofHours(2))) {
      int seconds = RpcOptions.seconds(CriuOptions.builder().freezeTimeout(endless).build());
      assertEquals(4294, seconds);
      assertTrue(seconds * 1_000_000L <= 0xffff_ffffL, "in microseconds, in 32 bits");
    }
    assertEquals(
        2,
        RpcOptions.seconds(CriuOptions.builder().freezeTimeout(Duration.ofMillis(1001)).build()));
  }
}
