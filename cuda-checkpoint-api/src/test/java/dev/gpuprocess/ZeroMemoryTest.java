package dev.gpuprocess;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.SaveAreaMachine;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.ProcessMemory;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.SaveFileMappings;
import dev.gpuprocess.report.Step;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** GPU memory that is zero takes no host memory while its process is suspended. */
@RequiresRoot("mounts, and traces the process")
@Tag("slow")
class ZeroMemoryTest {

  private static final long MIB = 1 << 20;
  private static final int FIRST = 81;
  private static final int ZEROS = 320;
  private static final int LAST = 33;
  private static final String WHOLE = "ok %s bytes".formatted((FIRST + LAST) * MIB);

  /** What a context saves beside the allocations, and the huge pages that are partly zero. */
  private static final long SLACK = 24 * MIB;

  @TempDir Path directory;
  private SaveAreaMachine machine;
  private Pattern pattern;

  @BeforeEach
  void start() throws IOException {
    machine = SaveAreaMachine.in(directory, "size=1g", SimulatedDriver.builder());
    pattern = Pattern.launch(FIRST).on(machine.driver()).notOurChild().start();
  }

  @AfterEach
  void end() {
    if (pattern != null) {
      pattern.close();
    }
    if (machine != null) {
      machine.close();
    }
  }

  /** Zeros with content on both sides. */
  private CheckpointedProcess suspended() {
    pattern.hold(ZEROS);
    pattern.allocate(LAST);
    return machine.checkpoints().process(pattern.pid()).suspend();
  }

  private long taken() {
    return machine.memory().takenBytes();
  }

  private void assertIsContent() {
    long content = (FIRST + LAST) * MIB;
    assertTrue(taken() >= content && taken() <= content + SLACK, taken() + " bytes are taken");
  }

  private static String note(CheckpointedProcess suspended) {
    return suspended.steps().stream()
        .filter(step -> step.name().equals("checkpoint"))
        .map(Step::note)
        .findFirst()
        .orElseThrow();
  }

  @Test
  void whatIsKeptIsContent_andEveryByteReturns() {
    CheckpointedProcess suspended = suspended();
    for (int round = 0; round < 3; round++) {
      assertIsContent();
      assertTrue(note(suspended).matches(".*, of which .* are zero and not kept"), note(suspended));
      RunningProcess running = suspended.resume();
      assertEquals(WHOLE, pattern.verify());
      await().atMost(60, SECONDS).until(() -> taken() == 0);
      pattern.touch(round + 2);
      suspended = running.suspend();
    }
    suspended.resume();
    assertEquals(WHOLE, pattern.verify());
  }

  @Test
  void withoutTheHook_theDriverFindsItsZeros() {
    suspended();
    GpuProcess found =
        machine.checkpoints().toBuilder().driverHook(false).build().inspect(pattern.pid());
    ((CheckpointedProcess) found).resume();
    assertEquals(WHOLE, pattern.verify());
    assertEquals(0, SaveFileMappings.bytes((int) pattern.pid()));
  }

  @Test
  void aReadOfTheZeros_takesNoMemory() throws NativeCallException {
    suspended();
    long before = taken();
    Mapping zeros =
        ProcFs.memory(pattern.pid()).stream()
            .filter(each -> each.isUnnamedMemory() && isBesideAFile(each))
            .findFirst()
            .orElseThrow();
    ProcessMemory process = new ProcessMemory(ProcFs.anyThread((int) pattern.pid()));
    for (long at = zeros.start(); at < zeros.end(); at += MIB) {
      int count = (int) Math.min(MIB, zeros.end() - at);
      assertArrayEquals(new byte[count], process.read(at, count));
    }
    assertEquals(before, taken());
    assertEquals(0, resident(zeros));
  }

  private boolean isBesideAFile(Mapping mapping) {
    List<Mapping> files = SaveFileMappings.candidates((int) pattern.pid());
    return mapping.addresses().bytes() > ZEROS / 2 * MIB
        && files.stream().anyMatch(file -> file.end() == mapping.start());
  }

  /** Counts anonymous pages; the kernel's page of zeros is none. */
  private long resident(Mapping mapping) {
    return ProcFs.read(pattern.pid(), "smaps")
        .orElseThrow()
        .lines()
        .dropWhile(line -> !line.startsWith(Long.toHexString(mapping.start()) + "-"))
        .filter(line -> line.startsWith("Anonymous:"))
        .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", "")))
        .findFirst()
        .orElseThrow();
  }

  @Test
  void denseMemory_staysAsItIs() {
    pattern.allocate(ZEROS);
    CheckpointedProcess suspended = machine.checkpoints().process(pattern.pid()).suspend();
    assertFalse(note(suspended).contains("zero"), note(suspended));
    suspended.resume();
    assertEquals("ok %s bytes".formatted((FIRST + ZEROS) * MIB), pattern.verify());
  }
}
