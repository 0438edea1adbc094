package dev.gpuprocess.internal.memory;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.cuda.LibCuda;
import dev.gpuprocess.internal.linux.NamelessFile;
import dev.gpuprocess.internal.linux.ProcessMemory;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.SaveFileMappings;
import dev.gpuprocess.internal.remote.UntraceableException;
import dev.gpuprocess.internal.target.MappedLibrary;
import dev.gpuprocess.internal.target.TargetMemory;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Threads that share the copies of the driver. */
@RequiresRoot("traces other processes")
@Tag("slow")
class DriverHookTest {

  private static final int MIB = 32;
  private static final String WHOLE = "ok %s bytes".formatted((long) MIB << 20);
  private static final String NAME = "gpu-memory-copy";

  private SimulatedDriver machine;
  private CudaDriver cuda;
  private Pattern pattern;
  private int pid;
  private ProcessIdentity process;

  @BeforeEach
  void start() {
    machine = SimulatedDriver.create();
    cuda = LibCuda.in(machine.directory());
    pattern = Pattern.launch(MIB).on(machine).notOurChild().start();
    pid = (int) pattern.pid();
    process = ProcessIdentity.of(pid).orElseThrow();
  }

  @AfterEach
  void stop() {
    pattern.close();
    machine.close();
  }

  private void lock() {
    assertEquals(CudaResult.SUCCESS, cuda.lock(pid, 10_000));
  }

  private void checkpoint() {
    assertEquals(CudaResult.SUCCESS, cuda.checkpoint(pid));
  }

  private void restore() {
    assertEquals(CudaResult.SUCCESS, cuda.restore(pid, Map.of()));
  }

  private void unlock() {
    assertEquals(CudaResult.SUCCESS, cuda.unlock(pid));
  }

  private long threads() {
    return ProcFs.tasks(pid).stream().filter(thread -> thread.name().equals(NAME)).count();
  }

  /** Those that have ended may be listed for a moment; what is left ends after 10 s idle. */
  private void awaitNoThreads() {
    await().atMost(5, SECONDS).until(() -> threads() == 0);
  }

  private List<MappedLibrary.Import> imports() throws IOException {
    return DriverLibrary.in(TargetMemory.of(pid), ProcFs.memory(pid))
        .get(0)
        .imports(Set.copyOf(HookPages.FUNCTIONS));
  }

  @Test
  void copiesBothWays_areDivided_andNothingStaysBehind() throws IOException, UntraceableException {
    List<MappedLibrary.Import> before = imports();
    for (int round = 0; round < 3; round++) {
      lock();
      DriverHook hook = DriverHook.set(process, List.of(), 2, true);
      checkpoint();
      DriverHook.Work out = hook.work();
      hook.remove();
      assertEquals(1, out.areas().size());
      assertTrue(out.copied() >= (long) MIB << 20, out.toString());
      assertEquals(0, out.prepared());
      assertEquals(before, imports());
      awaitNoThreads();
      hook = DriverHook.set(process, List.of(), 2, true);
      await().until(() -> threads() == 2); // each thread sets its own name
      restore();
      assertTrue(hook.work().copied() >= (long) MIB << 20);
      hook.remove();
      unlock();
      assertEquals(WHOLE, pattern.verify());
      assertEquals(before, imports());
      awaitNoThreads();
    }
  }

  /** Memory for a save area, as a pool makes it. */
  private static NamelessFile memory(int mebibytes) throws IOException {
    NamelessFile file = NamelessFile.create(Path.of("/dev/shm"), (long) mebibytes << 20);
    try (NamelessFile.Pages pages = file.pages()) {
      pages.make(0, file.bytes());
    }
    return file;
  }

  @Test
  void preparedMemory_isWhatTheDriverGets_andTheRestIsUnmapped() throws Exception {
    lock();
    try (NamelessFile first = memory(16);
        NamelessFile second = memory(64)) {
      DriverHook hook = DriverHook.set(process, List.of(first, second), 1, true);
      checkpoint();
      DriverHook.Work work = hook.work();
      hook.remove();
      assertEquals(work.areas().get(0).bytes(), work.prepared());
      assertEquals(work.prepared(), SaveFileMappings.bytes(pid));
    }
    restore();
    unlock();
    assertEquals(0, SaveFileMappings.bytes(pid));
    assertEquals(WHOLE, pattern.verify());
  }

  @Test
  void memoryThatIsTooSmall_isNotUsed_andGoes() throws Exception {
    lock();
    try (NamelessFile small = memory(4)) {
      DriverHook hook = DriverHook.set(process, List.of(small), 1, true);
      checkpoint();
      assertEquals(0, hook.work().prepared());
      hook.remove();
    }
    assertEquals(0, SaveFileMappings.bytes(pid));
    restore();
    unlock();
    assertEquals(WHOLE, pattern.verify());
  }

  /** As after a kill of its controller: no controller removes the hook. */
  @Test
  void leftBehind_threadsEnd_memoryGoes_andItCopiesAsTheLibraryDoes() throws Exception {
    lock();
    try (NamelessFile file = memory(64)) {
      DriverHook unused = DriverHook.set(process, List.of(file), 2, true);
    }
    await().until(() -> threads() == 2);
    await().atMost(60, SECONDS).until(() -> threads() == 0);
    await().atMost(10, SECONDS).until(() -> SaveFileMappings.bytes(pid) == 0);
    checkpoint();
    restore();
    unlock();
    assertEquals(WHOLE, pattern.verify());
    assertTrue(DriverHook.removeFrom(process));
    assertTrue(imports().stream().noneMatch(each -> isInHook(each.target())));
    assertEquals(WHOLE, pattern.verify());
  }

  /** Also of those that have not begun to run: a controller may be killed at this moment. */
  @Test
  void numbersOfTheThreads_areThereAtOnce() throws Exception {
    lock();
    DriverHook hook = DriverHook.set(process, List.of(), 8, true);
    HookPages pages = HookPages.in(new ProcessMemory(pid), ProcFs.memory(pid)).orElseThrow();
    Set<Integer> numbers = pages.threads();
    assertEquals(8, numbers.size(), numbers.toString());
    assertTrue(numbers.stream().allMatch(number -> number > 0), numbers.toString());
    hook.remove();
    assertEquals(Set.of(), pages.threads());
    unlock();
  }

  private boolean isInHook(long address) {
    return HookPages.codePages(ProcFs.memory(pid)).contains(address & -HookPages.PAGE);
  }

  @Test
  void anotherController_takesItOver() throws Exception {
    lock();
    DriverHook unused = DriverHook.set(process, List.of(), 2, true);
    DriverHook second = DriverHook.set(process, List.of(), 1, true);
    await().until(() -> threads() == 1);
    checkpoint();
    second.remove();
    restore();
    unlock();
    assertEquals(WHOLE, pattern.verify());
    long pages =
        HookPages.codePages(ProcFs.memory(pid)).stream()
            .filter(page -> HookPages.at(new ProcessMemory(pid), page).isPresent())
            .count();
    assertEquals(1, pages);
  }
}
