package dev.gpuprocess.internal.memory;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.Workload;
import dev.gpuprocess.internal.cuda.LibCuda;
import dev.gpuprocess.internal.cuda.LibNvml;
import dev.gpuprocess.internal.linux.ProcessMemory;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.target.TargetMemory;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.Step;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Programs that poll the driver, as JAX does, survive a suspend. */
@RequiresRoot("traces other processes")
@Tag("slow")
class LockGateTest {

  private static final int MIB = 4;
  private static final String WHOLE = "ok %s bytes".formatted((long) MIB << 20);

  @TempDir Path state;

  private SimulatedDriver machine;
  private CudaDriver cuda;
  private GpuCheckpoints checkpoints;

  @BeforeEach
  void start() {
    machine = SimulatedDriver.create();
    cuda = LibCuda.in(machine.directory());
    checkpoints =
        GpuCheckpoints.builder()
            .cuda(cuda, LibNvml.in(machine.directory()))
            .stateDirectory(state)
            .build();
  }

  @AfterEach
  void stop() {
    machine.close();
  }

  private Pattern poller() {
    return Pattern.launch(MIB).on(machine).polling(10).start();
  }

  private static int pid(Pattern poller) {
    return (int) poller.pid();
  }

  private static String note(CheckpointedProcess suspended) {
    return suspended.steps().stream()
        .filter(step -> step.name().equals("checkpoint"))
        .map(Step::note)
        .findFirst()
        .orElseThrow();
  }

  private static void assertPollsOn(Pattern poller) {
    long before = poller.polls();
    await().atMost(30, SECONDS).until(() -> poller.polls() > before + 100);
    assertEquals(0, poller.failedPolls());
    assertEquals(WHOLE, poller.verify());
  }

  /** Whether a slot of the process's libcuda points to the library itself. */
  private static boolean isUntouched(Pattern poller) throws IOException {
    DriverLibrary library = library(poller);
    return library.isCode(slot(library, "cuStreamQuery").target())
        && library.isCode(slot(library, "cuMemGetInfo_v2").target());
  }

  private static DriverLibrary library(Pattern poller) throws IOException {
    List<DriverLibrary> found =
        DriverLibrary.in(TargetMemory.of(pid(poller)), ProcFs.memory(poller.pid()));
    assertEquals(1, found.size());
    return found.get(0);
  }

  private static DriverLibrary.Slot slot(DriverLibrary library, String function)
      throws IOException {
    return library.slot(library.function(function).orElseThrow()).orElseThrow();
  }

  @Test
  void suspends_pollersLive() throws IOException {
    try (Pattern poller = poller()) {
      for (int cycle = 0; cycle < 5; cycle++) {
        CheckpointedProcess suspended = checkpoints.process(poller.pid()).suspend();
        assertTrue(note(suspended).startsWith("polls wait for the unlock"), note(suspended));
        assertFalse(isUntouched(poller));
        suspended.resume();
        assertTrue(isUntouched(poller));
        assertPollsOn(poller);
      }
    }
  }

  @Test
  void suspends_oneAfterTheOther_leaveOnePage() {
    try (Pattern poller = poller()) {
      checkpoints.process(poller.pid()).suspend().resume();
      long pages = gatePages(poller);
      checkpoints.process(poller.pid()).suspend().resume();
      assertEquals(1, pages);
      assertEquals(1, gatePages(poller));
    }
  }

  /**
   * As cuFFT does when a plan is destroyed: the call waits for the GPU before it waits at the lock.
   */
  @Test
  void moduleIsUnloadedWhileSuspended_waitsForTheUnlock() throws IOException {
    try (Pattern poller = poller()) {
      CheckpointedProcess suspended = checkpoints.process(poller.pid()).suspend();
      await().atMost(180, SECONDS).until(() -> noThreadPauses(poller));
      assertTrue(poller.isAlive());
      suspended.resume();
      assertPollsOn(poller);
    }
  }

  /** Returns whether all threads of the program have come to a call of the driver. */
  private static boolean noThreadPauses(Pattern poller) {
    return ProcFs.threads(poller.pid()).stream()
        .map(thread -> ProcFs.read(thread, "syscall").orElse(""))
        .noneMatch(call -> call.startsWith("35 ") || call.startsWith("230 ")); // nanosleep
  }

  @Test
  void suspend_aHundredThreadsPoll_allLive() throws IOException {
    try (Pattern poller = Pattern.launch(MIB).on(machine).polling(100).start()) {
      CheckpointedProcess suspended = checkpoints.process(poller.pid()).suspend();
      assertTrue(note(suspended).startsWith("polls wait for the unlock"), note(suspended));
      suspended.resume();
      assertTrue(isUntouched(poller));
      assertPollsOn(poller);
    }
  }

  private static long gatePages(Pattern poller) {
    ProcessMemory memory = new ProcessMemory(pid(poller));
    return ProcFs.memory(poller.pid()).stream()
        .filter(mapping -> mapping.permissions().startsWith("r-x"))
        .filter(mapping -> GatePage.at(memory, mapping.start()).isPresent())
        .count();
  }

  /** As after a kill of this JVM and a resume by NVIDIA's tool. */
  @Test
  void anotherToolResumes_pollersGoOn_andTheNextResumeTakesTheGateAway() throws IOException {
    try (Pattern poller = poller()) {
      CheckpointedProcess unused = checkpoints.process(poller.pid()).suspend();
      assertEquals(CudaResult.SUCCESS, cuda.restore(pid(poller), Map.of()));
      assertEquals(CudaResult.SUCCESS, cuda.unlock(pid(poller)));
      assertPollsOn(poller);
      assertFalse(isUntouched(poller));
      checkpoints.process(poller.pid()).suspend().resume();
      assertPollsOn(poller);
      assertTrue(isUntouched(poller));
    }
  }

  /** As with the hooks of a profiler. */
  @Test
  void slotsOfAnotherTool_areLeftAlone() throws IOException {
    try (Pattern poller = poller()) {
      DriverLibrary library = library(poller);
      DriverLibrary.Slot slot = slot(library, "cuDeviceGetName"); // no thread calls it
      ProcessMemory memory = new ProcessMemory(pid(poller));
      long elsewhere = ProcFs.memory(poller.pid()).get(0).start();
      assertEquals(CudaResult.SUCCESS, cuda.lock(pid(poller), 10_000));
      write(memory, slot.address(), elsewhere);
      String obstacle = LockGate.obstacle(identity(poller)).orElseThrow();
      assertTrue(obstacle.contains("the hooks of another tool"), obstacle);
      LockGate.Result result = LockGate.set(identity(poller), false);
      assertTrue(result.note().startsWith("polls do not wait"), result.note());
      assertEquals(elsewhere, slot(library, "cuDeviceGetName").target());
      assertTrue(library.isCode(slot(library, "cuStreamQuery").target()));
    }
  }

  private static void write(ProcessMemory memory, long address, long value) throws IOException {
    memory.write(
        address,
        ByteBuffer.allocate(Long.BYTES).order(ByteOrder.LITTLE_ENDIAN).putLong(value).array());
  }

  private static ProcessIdentity identity(Pattern poller) {
    return ProcessIdentity.of(poller.pid()).orElseThrow();
  }

  /** As after a kill of the controller that set the gate. */
  @Test
  void gateThatIsHalfSet_isCompleted() throws IOException {
    try (Pattern poller = poller()) {
      CheckpointedProcess suspended = checkpoints.process(poller.pid()).suspend();
      DriverLibrary library = library(poller);
      DriverLibrary.Slot slot = slot(library, "cuStreamQuery");
      ProcessMemory memory = new ProcessMemory(pid(poller));
      GatePage page = GatePage.at(memory, slot.target() & -GatePage.BYTES).orElseThrow();
      suspended.resume();
      ReplacedSlot first = page.slots().get(0);
      assertEquals(CudaResult.SUCCESS, cuda.lock(pid(poller), 10_000));
      write(memory, first.address(), first.routine());
      LockGate.Result result = LockGate.set(identity(poller), false);
      assertEquals("polls wait for the unlock", result.note());
      assertEquals("", result.danger());
      for (ReplacedSlot each : page.slots()) {
        assertTrue(each.points(memory, true));
      }
      assertEquals(CudaResult.SUCCESS, cuda.unlock(pid(poller)));
      LockGate.remove(identity(poller));
      assertTrue(isUntouched(poller));
      assertPollsOn(poller);
    }
  }

  /** As after a kill of the controller that set the gate: no thread has to be borrowed. */
  @Test
  void gateThatIsSet_isNotSetAgain() throws IOException {
    try (Pattern poller = poller();
        Workload debugger = Workload.idle()) {
      assertEquals(CudaResult.SUCCESS, cuda.lock(pid(poller), 10_000));
      assertEquals("polls wait for the unlock", LockGate.set(identity(poller), false).note());
      for (ProcStat thread : ProcFs.tasks(poller.pid())) {
        assertEquals("1", debugger.ask("trace " + thread.pid()));
      }
      assertEquals("polls wait for the unlock", LockGate.set(identity(poller), false).note());
      debugger.kill();
      assertEquals(CudaResult.SUCCESS, cuda.unlock(pid(poller)));
      LockGate.remove(identity(poller));
      assertTrue(isUntouched(poller));
      assertPollsOn(poller);
    }
  }

  /** Frames that are gone leave their return addresses between those of a thread that waits. */
  @Test
  void waitWithAnOldReturnAddressOnItsStack_isNoCall() throws IOException {
    try (Pattern poller = poller()) {
      ProcessMemory memory = new ProcessMemory(pid(poller));
      assertEquals(CudaResult.SUCCESS, cuda.lock(pid(poller), 10_000));
      assertEquals("polls wait for the unlock", LockGate.set(identity(poller), false).note());
      GatePage page =
          GatePage.at(memory, slot(library(poller), "cuStreamQuery").target() & -GatePage.BYTES)
              .orElseThrow();
      await().atMost(30, SECONDS).until(() -> !waits(poller, memory, page).isEmpty());
      await().atMost(30, SECONDS).until(() -> allWait(poller)); // all wait in the gate
      for (long wait : waits(poller, memory, page)) {
        // the gate does not use the bytes between its frame and the call's return address
        write(memory, wait + 8, page.entries().get(0).returnAddress());
      }
      CallsUnderWay calls =
          new CallsUnderWay(identity(poller), memory, List.of(page), library(poller)::isCode);
      assertEquals(List.of(), calls.await(ProcFs.memory(poller.pid()), Duration.ofMillis(1500)));
      assertEquals(CudaResult.SUCCESS, cuda.unlock(pid(poller)));
      LockGate.remove(identity(poller));
      assertPollsOn(poller);
    }
  }

  private static boolean allWait(Pattern poller) {
    return ProcFs.tasks(poller.pid()).stream().allMatch(thread -> thread.state() == 'S');
  }

  /** Returns where the threads that wait in the gate have the return address of their wait. */
  private static List<Long> waits(Pattern poller, ProcessMemory memory, GatePage page)
      throws IOException {
    List<Long> waits = new ArrayList<>();
    for (int thread : ProcFs.threads(poller.pid())) {
      String[] call = ProcFs.read(thread, "syscall").orElse("").strip().split(" ");
      if (call.length >= 3) {
        OptionalLong wait = wait(StackReader.pointer(call), memory, page);
        wait.ifPresent(waits::add);
      }
    }
    return waits;
  }

  private static OptionalLong wait(long top, ProcessMemory memory, GatePage page)
      throws IOException {
    for (long at = top; at < top + 1024; at += Long.BYTES) {
      long word = memory.readLong(at);
      long wait = GatePage.waitAddressBelow(at);
      for (GatePage.Entry entry : page.entries()) {
        if (word == entry.returnAddress() && memory.readLong(wait) == entry.waitAddress()) {
          return OptionalLong.of(wait);
        }
      }
    }
    return OptionalLong.empty();
  }

  @Test
  void functions_areFoundByTheirNames() throws IOException {
    try (Pattern poller = poller()) {
      DriverLibrary library = library(poller);
      assertTrue(library.function("cuInit").isPresent());
      assertTrue(library.function("cuLaunchKernel").isPresent());
      assertEquals(OptionalLong.empty(), library.function("cuNoSuchFunction"));
      assertEquals(OptionalLong.empty(), library.function("cuInitX"));
    }
  }
}
