package dev.gpuprocess;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.internal.pool.HostMemoryPool;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.proc.SaveFileMappings;
import dev.gpuprocess.options.HostMemory;
import dev.gpuprocess.report.Diagnosis;
import dev.gpuprocess.report.Finding;
import dev.gpuprocess.report.Step;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** The host memory in which the GPU memory of suspended processes is. */
@RequiresRoot("traces other processes")
@SimulatedGpu
@Tag("slow")
record HostMemoryTest(SimulatedDriver machine, GpuCheckpoints checkpoints) {

  private static final int MIB = 160;
  private static final Path TMPFS = Path.of("/dev/shm");
  private static final String POLLS = "polls wait for the unlock";
  private static final String WHOLE = "ok %s bytes".formatted((long) MIB << 20);

  private Pattern start(int mebibytes) {
    return machine.start(Pattern.launch(mebibytes).notOurChild());
  }

  private static String note(CheckpointedProcess suspended) {
    return suspended.steps().stream()
        .filter(step -> step.name().equals("checkpoint"))
        .map(Step::note)
        .findFirst()
        .orElseThrow();
  }

  /** Returns the threads that have a tracer. */
  private static List<Integer> traced(Pattern pattern) {
    return ProcFs.tasks(pattern.pid()).stream()
        .map(ProcStat::pid)
        .filter(task -> !ProcFs.status(task).getOrDefault("TracerPid", "0").equals("0"))
        .toList();
  }

  private static List<String> threads(Pattern pattern) {
    return ProcFs.tasks(pattern.pid()).stream().map(thread -> thread.name()).sorted().toList();
  }

  /** Those of a process that has just started; one of the driver's gives itself a name. */
  private static List<String> ownThreads(Pattern pattern) {
    await().atMost(30, SECONDS).until(() -> threads(pattern).contains("cuda-EvtHandlr"));
    return threads(pattern);
  }

  /** A thread that has ended may be listed for a moment; one that is left ends after 10 s idle. */
  private static void awaitThreads(List<String> expected, Pattern pattern) {
    await().atMost(5, SECONDS).untilAsserted(() -> assertEquals(expected, threads(pattern)));
  }

  /** What the process maps of files in memory that have no name. */
  private static long saved(Pattern pattern) {
    return SaveFileMappings.bytes((int) pattern.pid());
  }

  @Test
  void suspends_intoMemoryMadeBefore_andNothingStays() {
    GpuCheckpoints here = checkpoints.toBuilder().hostMemory(HostMemory.in(TMPFS)).build();
    try (Pattern pattern = start(MIB)) {
      List<String> before = ownThreads(pattern);
      for (int round = 0; round < 3; round++) {
        CheckpointedProcess suspended = here.process(pattern.pid()).suspend();
        assertTrue(
            note(suspended).matches(POLLS + "; .* copied by \\d+ threads into prepared memory"),
            note(suspended));
        assertTrue(saved(pattern) >= (long) MIB << 20);
        awaitThreads(before, pattern);
        assertEquals(List.of(), traced(pattern));
        suspended.resume();
        assertEquals(0, saved(pattern));
        assertEquals(WHOLE, pattern.verify());
        awaitThreads(before, pattern);
      }
    }
  }

  @Test
  void memoryKeptReady_isUsedAndMadeAnew() throws IOException {
    HostMemory ready = HostMemory.in(TMPFS).ready(512L << 20);
    GpuCheckpoints here = checkpoints.toBuilder().hostMemory(ready).build();
    HostMemoryPool pool = here.context().hostMemory();
    await().atMost(120, SECONDS).until(() -> pool.readyBytes() >= 512L << 20);
    try (Pattern pattern = start(MIB)) {
      CheckpointedProcess suspended = here.process(pattern.pid()).suspend();
      assertTrue(note(suspended).contains("prepared memory"), note(suspended));
      // The rest of a file that was ready is free again, but for less than a huge page.
      for (Mapping each : SaveFileMappings.candidates((int) pattern.pid())) {
        long mapped = each.offset() + each.addresses().bytes();
        assertTrue(fileBytes(pattern, each) <= mapped + (2 << 20), each.toString());
      }
      await().atMost(120, SECONDS).until(() -> pool.readyBytes() >= 512L << 20);
      suspended.resume();
      assertEquals(WHOLE, pattern.verify());
    } finally {
      pool.close();
    }
  }

  private static String copies(Diagnosis diagnosis) {
    return diagnosis.findings().stream()
        .filter(finding -> finding.subject().equals("copies"))
        .map(Finding::what)
        .findFirst()
        .orElseThrow();
  }

  @Test
  void doctor_tellsBeforehandWhichWayTheMemoryGoes() {
    try (Pattern pattern = start(MIB)) {
      GpuCheckpoints.Builder builder = checkpoints.toBuilder();
      String prepared =
          copies(builder.hostMemory(HostMemory.in(TMPFS)).build().doctor(pattern.pid()));
      assertTrue(prepared.contains("into host memory that is prepared"), prepared);
      String mapped = copies(builder.hostMemory(HostMemory.none()).build().doctor(pattern.pid()));
      assertTrue(mapped.contains("memory that the driver maps"), mapped);
      String alone = copies(builder.driverHook(false).build().doctor(pattern.pid()));
      assertTrue(alone.contains("with one thread: the settings disable the driver hook"), alone);
    }
  }

  private static long fileBytes(Pattern pattern, Mapping mapping) throws IOException {
    return Files.size(Path.of("/proc", Long.toString(pattern.pid()), "map_files", mapping.range()));
  }

  @Test
  void noHostMemory_theDriverMapsIt() {
    GpuCheckpoints here = checkpoints.toBuilder().hostMemory(HostMemory.none()).build();
    try (Pattern pattern = start(MIB)) {
      CheckpointedProcess suspended = here.process(pattern.pid()).suspend();
      assertTrue(note(suspended).contains("into memory that the driver mapped"), note(suspended));
      assertEquals(0, saved(pattern));
      suspended.resume();
      assertEquals(WHOLE, pattern.verify());
    }
  }

  @Test
  void switchedOff_theDriverWorksAlone() {
    try (Pattern pattern = start(MIB)) {
      GpuCheckpoints alone = checkpoints.toBuilder().driverHook(false).build();
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
      assertEquals(POLLS, note);
    }
  }

  @Test
  void checkpointFails_nothingStays() {
    try (Pattern pattern = start(MIB)) {
      List<String> before = ownThreads(pattern);
      machine.faults(Fault.in("cuCheckpointProcessCheckpoint").during().answers(999));
      RunningProcess running = checkpoints.process(pattern.pid());
      assertThrows(GpuCheckpointException.class, running::suspend);
      machine.clearFaults();
      awaitThreads(before, pattern);
    }
  }
}
