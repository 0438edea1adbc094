package dev.gpuprocess;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.mockito.Mockito.mock;

import dev.gpuprocess.contract.JournalFiles;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.options.ResumeOptions;
import dev.gpuprocess.options.Timeouts;
import dev.gpuprocess.report.Diagnosis;
import dev.gpuprocess.report.RecoveryOutcome;
import dev.gpuprocess.spi.CriuDriver;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * A process whose restore ran out of GPU memory, as the simulated driver imitates it: it stays
 * CHECKPOINTED, and every later restore answers CUDA_ERROR_OPERATING_SYSTEM.
 */
class PoisonMemoryTest {

  @TempDir Path state;
  private RoomOnGpu room;
  private Pattern pattern;
  private GpuCheckpoints checkpoints;

  @BeforeEach
  void poison() {
    room = new RoomOnGpu();
    pattern = room.pattern();
    checkpoints = controller();
    CheckpointedProcess suspended = checkpoints.process(pattern.pid()).suspend();
    try (Pattern filler = room.pattern()) {
      assertTrue(filler.isAlive());
      // The caller says that it needs nothing, so the restore is tried.
      ResumeOptions options = ResumeOptions.builder().needs(Map.of()).build();
      assertThrows(PoisonedProcessException.class, () -> suspended.resume(options));
    }
  }

  @AfterEach
  void close() {
    pattern.close();
    room.close();
  }

  /** Settings of another controller: nothing is remembered in memory. */
  private GpuCheckpoints controller() {
    return GpuCheckpoints.builder()
        .cuda(room.machine.directory())
        .criu(mock(CriuDriver.class))
        .timeouts(Timeouts.builder().memory(Duration.ZERO).build())
        .stateDirectory(state)
        .build();
  }

  private PoisonedProcess found() {
    return assertInstanceOf(PoisonedProcess.class, controller().inspect(pattern.pid()));
  }

  @Test
  void inspectKnowsIt() {
    assertEquals("process " + pattern.pid() + ", poisoned", found().toString());
  }

  @Test
  void doctorCallsItAProblemAndNotHealthy() {
    for (int i = 0; i < 2; i++) {
      Diagnosis diagnosis = controller().doctor(pattern.pid());
      assertEquals(1, diagnosis.problems().size(), diagnosis::toString);
      String text = diagnosis.problems().get(0).toString();
      assertTrue(text.contains("refuses to restore it"), text);
      assertTrue(text.contains("end it and restore an image of it"), text);
      assertFalse(diagnosis.toString().contains("there is room"), diagnosis::toString);
      assertFalse(diagnosis.toString().contains("recover()"), diagnosis::toString);
      JournalFiles.controllerDies(state);
    }
  }

  @Test
  void recoverReportsIt_alsoWhenTheControllerHasDied() {
    for (int i = 0; i < 2; i++) {
      List<Recovered> all = controller().recover();
      assertEquals(1, all.size(), all::toString);
      assertEquals(RecoveryOutcome.POISONED, all.get(0).outcome());
      assertEquals(pattern.pid(), all.get(0).process().pid());
      JournalFiles.controllerDies(state);
    }
    found();
  }

  @Test
  void resumeNamesTheCureAndKeepsTheRecord() {
    PoisonedProcessException e =
        assertThrows(PoisonedProcessException.class, () -> found().resume());
    assertTrue(e.getMessage().contains("end it and restore an image of it"), e.getMessage());
    assertFalse(e.getMessage().contains("try again"), e.getMessage());
    found();
    assertThrows(PoisonedProcessException.class, () -> e.process().resume());
  }

  @Test
  void recordIsRemovedWithTheProcess() {
    found().end();
    assertEquals(List.of(), JournalFiles.in(state));
    assertTrue(pattern.awaitExit(Duration.ofSeconds(30)));
  }

  @Test
  void recordOfOneThatEndedByItselfIsRemovedByARecovery() {
    pattern.kill();
    assertTrue(pattern.awaitExit(Duration.ofSeconds(30)));
    assertEquals(RecoveryOutcome.GONE, controller().recover().get(0).outcome());
    assertEquals(List.of(), JournalFiles.in(state));
  }
}
