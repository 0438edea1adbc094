package dev.gpuprocess;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.cuda.jnr.LibCuda;
import dev.gpuprocess.cuda.jnr.LibNvml;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.Workload;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.progress.Step;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Memory that is populated ahead of the driver. */
@RequiresRoot("traces other processes")
class PopulateAheadTest {

  private static final int MIB = 160;
  private static final String POLLS = "polls wait for the unlock";
  private static final String WHOLE = "ok %s bytes".formatted((long) MIB << 20);

  @TempDir Path state;

  private SimulatedDriver machine;
  private GpuCheckpoints checkpoints;

  @BeforeEach
  void start() {
    machine = SimulatedDriver.create();
    checkpoints =
        GpuCheckpoints.builder()
            .cuda(LibCuda.in(machine.directory()), LibNvml.in(machine.directory()))
            .stateDirectory(state)
            .build();
  }

  @AfterEach
  void stop() {
    machine.clearFaults();
    machine.close();
  }

  private Pattern start(int mebibytes) {
    return Pattern.launch(mebibytes).on(machine).notOurChild().start();
  }

  private static String note(CheckpointedProcess suspended) {
    return suspended.steps().stream()
        .filter(step -> step.name().equals("checkpoint"))
        .map(Step::note)
        .findFirst()
        .orElseThrow();
  }

  /** The threads that somebody traces. */
  private static List<Integer> traced(Pattern pattern) {
    return ProcFs.tasks(pattern.pid()).stream()
        .map(ProcStat::pid)
        .filter(task -> !ProcFs.status(task).getOrDefault("TracerPid", "0").equals("0"))
        .toList();
  }

  private static List<String> threads(Pattern pattern) {
    return ProcFs.tasks(pattern.pid()).stream().map(thread -> thread.name()).sorted().toList();
  }

  @Test
  void severalThreadsPopulate_andNothingStays() {
    try (Pattern pattern = start(MIB)) {
      List<String> before = threads(pattern);
      for (int round = 0; round < 3; round++) {
        CheckpointedProcess suspended = checkpoints.process(pattern.pid()).suspend();
        assertTrue(
            note(suspended).matches(POLLS + "; populated ahead by [1-8] threads"), note(suspended));
        assertEquals(before, threads(pattern));
        assertEquals(List.of(), traced(pattern));
        suspended.resume();
        assertEquals(WHOLE, pattern.verify());
      }
    }
  }

  @Test
  void switchedOff_theDriverWorksAlone() {
    try (Pattern pattern = start(MIB)) {
      GpuCheckpoints alone = checkpoints.toBuilder().populateAhead(false).build();
      CheckpointedProcess suspended = alone.process(pattern.pid()).suspend();
      assertEquals(POLLS, note(suspended));
      suspended.resume();
      assertEquals(WHOLE, pattern.verify());
    }
  }

  @Test
  void little_theDriverWorksAlone() {
    try (Pattern pattern = start(8)) {
      String note = note(checkpoints.process(pattern.pid()).suspend());
      assertEquals(List.of(), traced(pattern));
      assertTrue(note.equals(POLLS) || note.contains("no mapping of 128 MiB"), note);
    }
  }

  @Test
  void tracedByAnother_goesOnWithout_andTheStepSaysWhy() {
    try (Pattern pattern = start(MIB);
        Workload tracer = Workload.idle()) {
      int restoring =
          ProcFs.tasks(pattern.pid()).stream()
              .filter(thread -> thread.name().startsWith("cuda0000"))
              .findFirst()
              .orElseThrow()
              .pid();
      assertEquals("1", tracer.ask("trace " + restoring));
      CheckpointedProcess suspended = checkpoints.process(pattern.pid()).suspend();
      assertTrue(note(suspended).contains("is traced by process " + tracer.pid()), note(suspended));
      suspended.resume();
      assertEquals(WHOLE, pattern.verify());
    }
  }

  @Test
  void checkpointFails_nothingStays() {
    try (Pattern pattern = start(MIB)) {
      List<String> before = threads(pattern);
      machine.faults(Fault.in("cuCheckpointProcessCheckpoint").during().answers(999));
      RunningProcess running = checkpoints.process(pattern.pid());
      assertThrows(GpuCheckpointException.class, running::suspend);
      machine.clearFaults();
      assertEquals(before, threads(pattern));
    }
  }
}
