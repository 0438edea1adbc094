package dev.gpuprocess;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.options.ResumeOptions;
import dev.gpuprocess.options.Timeouts;
import java.nio.file.Path;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Durations without an end, and impossible ones. */
@OutsideUse("A12")
class EndlessDurationsTest {

  private static final List<Duration> ENDLESS =
      List.of(
          ChronoUnit.FOREVER.getDuration(),
          Duration.ofSeconds(Long.MAX_VALUE),
          Duration.ofMillis(Long.MAX_VALUE),
          Duration.ofNanos(Long.MAX_VALUE),
          Duration.ofDays(25));

  private static final Duration NEGATIVE = Duration.ofNanos(-1);

  @TempDir Path state;

  private GpuCheckpoints on(SimulatedDriver machine) {
    return GpuCheckpoints.builder().cuda(machine.directory()).stateDirectory(state).build();
  }

  @Test
  void everyVerb_withEndlessDurations_doesWhatItDoes() {
    try (SimulatedDriver machine = SimulatedDriver.create();
        Counter counter = Counter.start(machine)) {
      int next = 101;
      for (Duration endless : ENDLESS) {
        GpuCheckpoints checkpoints =
            on(machine).toBuilder()
                .timeouts(
                    Timeouts.builder()
                        .lock(endless)
                        .call(endless)
                        .transfer(endless)
                        .memory(endless)
                        .build())
                .build();
        checkpoints.process(counter.pid()).lock().close();
        checkpoints.process(counter.pid()).lock(endless).unlock();
        checkpoints
            .process(counter.pid())
            .suspend(endless)
            .resume(ResumeOptions.builder().waitForMemory(endless).build());
        checkpoints.process(counter.pid()).suspend().close();
        assertEquals(List.of(), checkpoints.recover());
        assertTrue(checkpoints.doctor(counter.pid()).findings().size() > 0);
        assertEquals(next++, counter.increment(), endless::toString);
      }
    }
  }

  @Test
  void lock_withAnEndlessTimeout_waitsForTheGpuWork() {
    try (SimulatedDriver machine = SimulatedDriver.create();
        Counter counter = Counter.start(machine)) {
      counter.spin(Duration.ofMillis(500));
      on(machine).process(counter.pid()).lock(ChronoUnit.FOREVER.getDuration()).close();
      assertEquals(101, counter.increment());
    }
  }

  @Test
  void impossibleDurations_areRefusedBeforeAnythingIsTouched() {
    Duration second = Duration.ofSeconds(1);
    for (Duration none : List.of(Duration.ZERO, NEGATIVE, Duration.ofSeconds(Long.MIN_VALUE))) {
      assertRefused(() -> Timeouts.builder().lock(none).call(second).transfer(second).build());
      assertRefused(() -> Timeouts.builder().lock(second).call(none).transfer(second).build());
      assertRefused(() -> Timeouts.builder().lock(second).call(second).transfer(none).build());
      assertRefused(() -> DumpOptions.builder().deadline(none));
      assertRefused(() -> DumpOptions.builder().criu(c -> c.freezeTimeout(none)));
      assertRefused(() -> RestoreOptions.builder().deadline(none));
    }
    assertRefused(
        () ->
            Timeouts.builder().lock(second).call(second).transfer(second).memory(NEGATIVE).build());
    assertRefused(() -> ResumeOptions.builder().waitForMemory(NEGATIVE).build());
    try (SimulatedDriver machine = SimulatedDriver.create();
        Counter counter = Counter.start(machine)) {
      RunningProcess running = on(machine).process(counter.pid());
      assertRefused(() -> running.lock(NEGATIVE));
      assertRefused(() -> running.suspend(NEGATIVE));
      assertEquals(101, counter.increment());
    }
  }

  private static void assertRefused(Runnable setter) {
    assertThrows(IllegalArgumentException.class, setter::run);
  }

  @Test
  void arithmetic_neverOverflows() {
    for (Duration endless : ENDLESS.subList(0, 3)) {
      assertEquals(Durations.LONGEST.toNanos(), Durations.nanos(endless));
      assertEquals(Durations.LONGEST, Durations.plus(endless, endless));
      assertFalse(Deadline.after(endless).passed());
      assertEquals(Durations.LONGEST, Deadline.after(endless).total());
      assertTrue(Durations.millis(endless) > 0);
      assertTrue(Durations.seconds(endless) > 0);
    }
    Duration before = Duration.ofSeconds(Long.MIN_VALUE);
    assertEquals(-Durations.LONGEST.toNanos(), Durations.nanos(before));
    assertTrue(Deadline.after(before).passed());
    assertEquals(0, Deadline.after(before).nanos());
    assertEquals(2, Durations.millis(Duration.ofNanos(1_000_001)));
    assertEquals(1, Durations.seconds(Duration.ofNanos(1)));
    assertEquals(
        Duration.ofSeconds(3), Durations.plus(Duration.ofSeconds(1), Duration.ofSeconds(2)));
  }
}
