package dev.gpuprocess.contract;

import static java.util.Objects.requireNonNull;
import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.gpuprocess.cuda.CudaAnswer;
import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.cuda.Gpu;
import dev.gpuprocess.cuda.GpuInventory;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Launch;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.fixtures.Signal;
import dev.gpuprocess.fixtures.Workload;
import dev.gpuprocess.internal.proc.OpenFile;
import dev.gpuprocess.internal.proc.ProcFs;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

/**
 * What the driver answers, case by case, as measured on an H200 with driver 580. The simulated
 * driver must never do what the real one does not.
 */
public abstract class CudaDriverContract {

  private static final int FOREVER = 0;

  /** The driver under test. */
  protected abstract CudaDriver driver();

  /** Its GPUs. */
  protected abstract GpuInventory inventory();

  /** Prepares a workload to run on this driver. */
  protected abstract <W extends Workload> Launch<W> on(Launch<W> launch);

  private Counter counter() {
    return on(Counter.launch()).start();
  }

  private ProcessState state(Workload workload) {
    CudaAnswer<ProcessState> answer = driver().getState((int) workload.pid());
    assertEquals(CudaResult.SUCCESS, answer.result());
    return requireNonNull(answer.value());
  }

  private void assertMoves(CudaResult answer, Workload workload, ProcessState reached) {
    assertEquals(CudaResult.SUCCESS, answer);
    assertEquals(reached, state(workload));
  }

  private void assertStays(
      CudaResult expected, CudaResult answer, Workload workload, ProcessState stays) {
    assertEquals(expected, answer);
    assertEquals(stays, state(workload));
  }

  private CudaResult lock(Workload workload) {
    return driver().lock((int) workload.pid(), 30_000);
  }

  private CudaResult checkpoint(Workload workload) {
    return driver().checkpoint((int) workload.pid());
  }

  private CudaResult restore(Workload workload) {
    return restore(workload, Map.of());
  }

  private CudaResult restore(Workload workload, Map<GpuUuid, GpuUuid> pairs) {
    return driver().restore((int) workload.pid(), pairs);
  }

  private CudaResult unlock(Workload workload) {
    return driver().unlock((int) workload.pid());
  }

  private long freeBytes() {
    return inventory().gpus().orElseThrow().stream().mapToLong(Gpu::freeBytes).sum();
  }

  @Test
  void goesThroughAllStatesAndComesBack() {
    try (Counter counter = counter()) {
      assertEquals(101, counter.increment());
      assertEquals(ProcessState.RUNNING, state(counter));
      assertMoves(lock(counter), counter, ProcessState.LOCKED);
      assertMoves(checkpoint(counter), counter, ProcessState.CHECKPOINTED);
      assertMoves(restore(counter), counter, ProcessState.LOCKED);
      assertMoves(unlock(counter), counter, ProcessState.RUNNING);
      assertEquals(102, counter.increment());
    }
  }

  /** The lock does not keep out calls that ask whether work is done. */
  @Test
  void pollsPassTheLock() {
    try (Pattern poller = on(Pattern.launch(1).polling(8)).start()) {
      assertMoves(lock(poller), poller, ProcessState.LOCKED);
      long before = poller.polls();
      await().atMost(30, SECONDS).until(() -> poller.polls() > before + 100);
      assertMoves(unlock(poller), poller, ProcessState.RUNNING);
      assertEquals(0, poller.failedPolls());
    }
  }

  /** Such calls read memory that a checkpoint unmaps. */
  @Test
  void pollsDuringACheckpointEndTheProcess() {
    try (Pattern poller = on(Pattern.launch(1).polling(8)).start()) {
      assertMoves(lock(poller), poller, ProcessState.LOCKED);
      CudaResult unused = checkpoint(poller);
      assertTrue(poller.awaitExit(Duration.ofSeconds(30)));
    }
  }

  @Test
  void needsNoCudaInTheCaller() {
    assertTrue(driver().version() >= 12_080, "driver 570 or later");
    assertEquals(CudaResult.NOT_INITIALIZED, driver().getState(1).result());
  }

  @Test
  void processWithoutCudaIsNotInitialized() {
    try (Workload idle = Workload.idle()) {
      assertEquals(CudaResult.NOT_INITIALIZED, driver().getState((int) idle.pid()).result());
      assertEquals(CudaResult.NOT_INITIALIZED, lock(idle));
      assertEquals(CudaResult.NOT_INITIALIZED, checkpoint(idle));
      assertEquals(CudaResult.NOT_INITIALIZED, restore(idle));
      assertEquals(CudaResult.NOT_INITIALIZED, unlock(idle));
    }
  }

  @Test
  void processThatIsNotThereIsAnOperatingSystemError() {
    Counter counter = counter();
    int gone = (int) counter.pid();
    counter.close();
    assertTrue(counter.awaitExit(Duration.ofSeconds(30)));
    for (int pid : new int[] {gone, 0, -1}) {
      assertEquals(CudaResult.OPERATING_SYSTEM, driver().getState(pid).result(), "pid " + pid);
      assertEquals(CudaResult.OPERATING_SYSTEM, driver().lock(pid, 1000), "pid " + pid);
    }
  }

  @Test
  void lockIsIllegalUnlessRunning() {
    try (Counter counter = counter()) {
      assertMoves(lock(counter), counter, ProcessState.LOCKED);
      assertStays(CudaResult.ILLEGAL_STATE, lock(counter), counter, ProcessState.LOCKED);
      assertMoves(checkpoint(counter), counter, ProcessState.CHECKPOINTED);
      assertStays(CudaResult.ILLEGAL_STATE, lock(counter), counter, ProcessState.CHECKPOINTED);
    }
  }

  @Test
  void checkpointIsIllegalUnlessLocked() {
    try (Counter counter = counter()) {
      assertStays(CudaResult.ILLEGAL_STATE, checkpoint(counter), counter, ProcessState.RUNNING);
      assertMoves(lock(counter), counter, ProcessState.LOCKED);
      assertMoves(checkpoint(counter), counter, ProcessState.CHECKPOINTED);
      assertStays(
          CudaResult.ILLEGAL_STATE, checkpoint(counter), counter, ProcessState.CHECKPOINTED);
    }
  }

  @Test
  void restoreIsIllegalUnlessCheckpointed() {
    try (Counter counter = counter()) {
      assertStays(CudaResult.ILLEGAL_STATE, restore(counter), counter, ProcessState.RUNNING);
      assertMoves(lock(counter), counter, ProcessState.LOCKED);
      assertStays(CudaResult.ILLEGAL_STATE, restore(counter), counter, ProcessState.LOCKED);
    }
  }

  @Test
  void unlockIsIllegalUnlessLocked() {
    try (Counter counter = counter()) {
      assertStays(CudaResult.ILLEGAL_STATE, unlock(counter), counter, ProcessState.RUNNING);
      assertMoves(lock(counter), counter, ProcessState.LOCKED);
      assertMoves(checkpoint(counter), counter, ProcessState.CHECKPOINTED);
      assertStays(CudaResult.ILLEGAL_STATE, unlock(counter), counter, ProcessState.CHECKPOINTED);
    }
  }

  @Test
  void unlockUndoesALock() {
    try (Counter counter = counter()) {
      assertMoves(lock(counter), counter, ProcessState.LOCKED);
      assertMoves(unlock(counter), counter, ProcessState.RUNNING);
      assertEquals(101, counter.increment());
    }
  }

  @Test
  void lockedProcessWaitsAtItsNextCall() {
    try (Counter counter = counter()) {
      assertMoves(lock(counter), counter, ProcessState.LOCKED);
      assertTrue(counter.tryAsk("inc", Duration.ofMillis(300)).isEmpty());
      assertMoves(unlock(counter), counter, ProcessState.RUNNING);
      await().atMost(20, SECONDS).until(counter::value, value -> value == 101);
    }
  }

  @Test
  void lockTimesOutOnABusyGpuAndTheProcessRunsOn() {
    try (Counter counter = counter()) {
      assertEquals(ProcessState.RUNNING, state(counter));
      CudaResult result = CudaResult.SUCCESS;
      for (int seconds = 3; result.ok(); seconds *= 2) {
        counter.spin(Duration.ofSeconds(seconds));
        result = driver().lock((int) counter.pid(), 500);
        if (result.ok()) {
          assertMoves(unlock(counter), counter, ProcessState.RUNNING); // the kernel had ended
        }
      }
      assertStays(CudaResult.NOT_READY, result, counter, ProcessState.RUNNING);
      assertEquals(101, counter.increment());
    }
  }

  @Test
  void lockWithoutTimeoutWaitsForTheKernel() {
    try (Counter counter = counter()) {
      counter.spin(Duration.ofSeconds(2));
      assertMoves(driver().lock((int) counter.pid(), FOREVER), counter, ProcessState.LOCKED);
    }
  }

  @Test
  void managedMemoryCannotBeCheckpointed() {
    try (Counter counter = counter()) {
      counter.allocateManaged();
      assertMoves(lock(counter), counter, ProcessState.LOCKED);
      assertStays(CudaResult.NOT_SUPPORTED, checkpoint(counter), counter, ProcessState.LOCKED);
      assertMoves(unlock(counter), counter, ProcessState.RUNNING);
      assertEquals(101, counter.increment());
    }
  }

  @Test
  void refusedCheckpointSpoilsLaterOnes() {
    try (Counter counter = counter()) {
      counter.allocateManaged();
      assertMoves(lock(counter), counter, ProcessState.LOCKED);
      assertStays(CudaResult.NOT_SUPPORTED, checkpoint(counter), counter, ProcessState.LOCKED);
      assertMoves(unlock(counter), counter, ProcessState.RUNNING);
      counter.freeManaged();
      assertMoves(lock(counter), counter, ProcessState.LOCKED);
      assertEquals(999, checkpoint(counter).code());
      assertMoves(unlock(counter), counter, ProcessState.RUNNING);
      assertEquals(101, counter.increment());
    }
  }

  @Test
  void managedMemoryThatIsFreedInTimeIsNoHindrance() {
    try (Counter counter = counter()) {
      counter.allocateManaged();
      counter.freeManaged();
      assertMoves(lock(counter), counter, ProcessState.LOCKED);
      assertMoves(checkpoint(counter), counter, ProcessState.CHECKPOINTED);
      assertMoves(restore(counter), counter, ProcessState.LOCKED);
      assertMoves(unlock(counter), counter, ProcessState.RUNNING);
      assertEquals(101, counter.increment());
    }
  }

  @Test
  void checkpointFreesTheGpuAndKeepsEveryByte() {
    int mebibytes = 256;
    try (Pattern pattern = on(Pattern.launch(mebibytes)).start()) {
      long before = freeBytes();
      assertMoves(lock(pattern), pattern, ProcessState.LOCKED);
      assertMoves(checkpoint(pattern), pattern, ProcessState.CHECKPOINTED);
      assertTrue(freeBytes() - before >= (long) mebibytes << 20, "the GPU is free of it");
      assertMoves(restore(pattern), pattern, ProcessState.LOCKED);
      assertMoves(unlock(pattern), pattern, ProcessState.RUNNING);
      assertEquals("ok %d bytes".formatted((long) mebibytes << 20), pattern.verify());
    }
  }

  @Test
  void checkpointedMemoryIsPrivateMemoryOfTheProcess() throws IOException {
    long size = 64L << 20;
    try (Pattern pattern = on(Pattern.launch(64)).start()) {
      long before = privateBytes(pattern);
      assertMoves(lock(pattern), pattern, ProcessState.LOCKED);
      assertMoves(checkpoint(pattern), pattern, ProcessState.CHECKPOINTED);
      assertTrue(privateBytes(pattern) >= before + size, "the save area");
      assertMoves(restore(pattern), pattern, ProcessState.LOCKED);
      assertTrue(privateBytes(pattern) < before + size / 2, "it is unmapped");
      assertMoves(unlock(pattern), pattern, ProcessState.RUNNING);
    }
  }

  /** Of its private, anonymous, writable mappings. */
  private static long privateBytes(Workload workload) throws IOException {
    return Files.readAllLines(Path.of("/proc/" + workload.pid() + "/maps")).stream()
        .filter(line -> line.strip().endsWith(" rw-p 00000000 00:00 0"))
        .map(line -> line.split("[- ]"))
        .mapToLong(words -> Long.parseLong(words[1], 16) - Long.parseLong(words[0], 16))
        .sum();
  }

  @Test
  void inventoryNamesTheProcessAndItsMemory() {
    try (Pattern pattern = on(Pattern.launch(64)).start()) {
      long held =
          inventory().gpus().orElseThrow().stream()
              .flatMap(gpu -> gpu.users().stream())
              .filter(user -> user.pid() == pattern.pid())
              .mapToLong(user -> user.bytes().orElseThrow())
              .sum();
      assertTrue(held >= 64L << 20, "holds " + held);
    }
  }

  @Test
  void restoreThreadBelongsToTheProcess() throws IOException {
    try (Counter counter = counter()) {
      CudaAnswer<Integer> answer = driver().getRestoreThreadId((int) counter.pid());
      assertEquals(CudaResult.SUCCESS, answer.result());
      Path thread = Path.of("/proc/" + counter.pid() + "/task/" + answer.value());
      assertTrue(Files.readString(thread.resolve("comm")).startsWith("cuda"));
    }
  }

  @Test
  void identityPairsChangeNothing() {
    try (Counter counter = counter()) {
      assertEquals(101, counter.increment());
      assertMoves(lock(counter), counter, ProcessState.LOCKED);
      assertMoves(checkpoint(counter), counter, ProcessState.CHECKPOINTED);
      Map<GpuUuid, GpuUuid> same =
          inventory().gpus().orElseThrow().stream().collect(Collectors.toMap(Gpu::uuid, Gpu::uuid));
      assertMoves(restore(counter, same), counter, ProcessState.LOCKED);
      assertMoves(unlock(counter), counter, ProcessState.RUNNING);
      assertEquals(102, counter.increment());
    }
  }

  @Test
  void unknownGpuIsInvalidAndALaterRestoreWorks() {
    GpuUuid here = inventory().gpus().orElseThrow().get(0).uuid();
    GpuUuid nowhere = GpuUuid.of("GPU-00000000-1111-2222-3333-444444444444");
    try (Counter counter = counter()) {
      assertMoves(lock(counter), counter, ProcessState.LOCKED);
      assertMoves(checkpoint(counter), counter, ProcessState.CHECKPOINTED);
      assertStays(
          CudaResult.INVALID_VALUE,
          restore(counter, Map.of(nowhere, here)),
          counter,
          ProcessState.CHECKPOINTED);
      assertMoves(restore(counter), counter, ProcessState.LOCKED);
      assertMoves(unlock(counter), counter, ProcessState.RUNNING);
      assertEquals(101, counter.increment());
    }
  }

  @Test
  void swappedPairsMoveTheProcessForGood() {
    List<Gpu> gpus = inventory().gpus().orElseThrow();
    assumeTrue(gpus.size() == 2, "needs two GPUs, here are " + gpus.size());
    GpuUuid first = gpus.get(0).uuid();
    GpuUuid second = gpus.get(1).uuid();
    try (Counter counter = counter()) {
      String before = counter.gpu();
      assertMoves(lock(counter), counter, ProcessState.LOCKED);
      assertMoves(checkpoint(counter), counter, ProcessState.CHECKPOINTED);
      assertMoves(
          restore(counter, Map.of(first, second, second, first)), counter, ProcessState.LOCKED);
      assertEquals(
          before.equals(first.text()) ? second : first, gpuOf(counter), "it is on the other GPU");
      assertMoves(checkpoint(counter), counter, ProcessState.CHECKPOINTED);
      assertMoves(restore(counter), counter, ProcessState.LOCKED);
      assertEquals(before.equals(first.text()) ? second : first, gpuOf(counter), "and stays there");
      assertMoves(unlock(counter), counter, ProcessState.RUNNING);
      assertEquals(101, counter.increment());
    }
  }

  private GpuUuid gpuOf(Workload workload) {
    return inventory().gpus().orElseThrow().stream()
        .filter(gpu -> gpu.users().stream().anyMatch(user -> user.pid() == workload.pid()))
        .map(Gpu::uuid)
        .findFirst()
        .orElseThrow();
  }

  @Test
  void everyCallHangsWhileTheTargetIsStopped() throws IOException {
    try (Counter counter = counter()) {
      signal(counter, "STOP");
      await().atMost(20, SECONDS).until(() -> isStopped(counter));
      CompletableFuture<CudaResult> state =
          CompletableFuture.supplyAsync(() -> driver().getState((int) counter.pid()).result());
      CompletableFuture<CudaResult> lock =
          CompletableFuture.supplyAsync(() -> driver().lock((int) counter.pid(), 100));
      await()
          .during(Duration.ofMillis(800))
          .atMost(Duration.ofSeconds(20))
          .until(() -> !state.isDone() && !lock.isDone());
      signal(counter, "CONT");
      await().atMost(20, SECONDS).until(() -> state.isDone() && lock.isDone());
      assertEquals(CudaResult.SUCCESS, state.join());
      if (lock.join().ok()) {
        assertEquals(CudaResult.SUCCESS, unlock(counter));
      }
      assertEquals(101, counter.increment());
    }
  }

  private static boolean isStopped(Workload workload) {
    return ProcFs.stat(workload.pid()).orElseThrow().isStopped();
  }

  private static void signal(Workload workload, String name) {
    assertTrue(workload.isAlive());
    Signal.send(name, workload.pid());
  }

  @Test
  void callsOnDifferentProcessesRunInParallel() {
    try (Counter busy = counter();
        Counter free = counter()) {
      assertEquals(ProcessState.RUNNING, state(busy));
      busy.spin(Duration.ofSeconds(8));
      CompletableFuture<CudaResult> waiting =
          CompletableFuture.supplyAsync(() -> driver().lock((int) busy.pid(), FOREVER));
      assertMoves(lock(free), free, ProcessState.LOCKED);
      assertFalse(waiting.isDone(), "the other lock still waits for its kernel");
      assertMoves(unlock(free), free, ProcessState.RUNNING);
      assertEquals(CudaResult.SUCCESS, waiting.join());
    }
  }

  /** Takes a while to checkpoint and to restore: half a second on an H200, seven simulated. */
  private Pattern slow() {
    return on(Pattern.launch(256)).environment("LIBCUDA_SIM_BANDWIDTH", "40").start();
  }

  private static CompletableFuture<CudaResult> begin(Supplier<CudaResult> verb) {
    return CompletableFuture.supplyAsync(verb);
  }

  /** Asks for the state until that is not answered any more, since a verb is under way. */
  private CompletableFuture<ProcessState> askInVain(Workload workload) {
    AtomicReference<CompletableFuture<ProcessState>> asked = new AtomicReference<>();
    await()
        .atMost(20, SECONDS)
        .until(
            () -> {
              asked.set(CompletableFuture.supplyAsync(() -> state(workload)));
              try {
                asked.get().get(700, MILLISECONDS);
                return false;
              } catch (TimeoutException e) {
                return true;
              }
            });
    return asked.get();
  }

  /** Fails if a third state is read during the verb; returns the longest time of a reading. */
  private Duration assertNoStateBetween(
      CompletableFuture<CudaResult> verb,
      Workload workload,
      ProcessState before,
      ProcessState after) {
    Duration longest = Duration.ZERO;
    ProcessState last = before;
    while (!verb.isDone()) {
      long asked = System.nanoTime();
      ProcessState state = state(workload);
      Duration took = Duration.ofNanos(System.nanoTime() - asked);
      assertTrue(state == last || (last == before && state == after), last + ", then " + state);
      longest = longest.compareTo(took) > 0 ? longest : took;
      last = state;
    }
    assertMoves(verb.join(), workload, after);
    return longest;
  }

  @Test
  void stateIsToldWhenACheckpointOrRestoreHasEnded() {
    try (Pattern pattern = slow()) {
      assertMoves(lock(pattern), pattern, ProcessState.LOCKED);
      long begun = System.nanoTime();
      Duration longest =
          assertNoStateBetween(
              begin(() -> checkpoint(pattern)),
              pattern,
              ProcessState.LOCKED,
              ProcessState.CHECKPOINTED);
      Duration took = Duration.ofNanos(System.nanoTime() - begun);
      assertTrue(longest.multipliedBy(4).compareTo(took) > 0, longest + " of " + took);
      begun = System.nanoTime();
      longest =
          assertNoStateBetween(
              begin(() -> restore(pattern)),
              pattern,
              ProcessState.CHECKPOINTED,
              ProcessState.LOCKED);
      took = Duration.ofNanos(System.nanoTime() - begun);
      assertTrue(longest.multipliedBy(4).compareTo(took) > 0, longest + " of " + took);
      assertMoves(unlock(pattern), pattern, ProcessState.RUNNING);
    }
  }

  @Test
  void restoreSentDuringACheckpointIsDoneAfterIt() {
    try (Pattern pattern = slow()) {
      assertMoves(lock(pattern), pattern, ProcessState.LOCKED);
      CompletableFuture<CudaResult> checkpoint = begin(() -> checkpoint(pattern));
      NativeCalls.await("cuCheckpointProcessCheckpoint");
      CompletableFuture<ProcessState> asked = CompletableFuture.supplyAsync(() -> state(pattern));
      CudaResult restored;
      do {
        assertFalse(checkpoint.isDone(), "the restore comes too late");
        restored = restore(pattern);
      } while (restored.equals(CudaResult.ILLEGAL_STATE)); // it was here before the checkpoint
      assertEquals(CudaResult.SUCCESS, restored);
      assertEquals(CudaResult.SUCCESS, checkpoint.join());
      // They are not always served in the order of their coming.
      assertNotEquals(ProcessState.RUNNING, asked.join());
      assertEquals(ProcessState.LOCKED, state(pattern));
      assertMoves(unlock(pattern), pattern, ProcessState.RUNNING);
      assertEquals("ok %d bytes".formatted(256L << 20), pattern.verify());
    }
  }

  @Test
  void timeoutOfALockDoesNotRunWhileAnotherIsUnderWay() {
    try (Counter counter = counter()) {
      counter.spin(Duration.ofSeconds(8));
      CompletableFuture<CudaResult> first =
          begin(() -> driver().lock((int) counter.pid(), FOREVER));
      NativeCalls.await("cuCheckpointProcessLock");
      CompletableFuture<ProcessState> asked = askInVain(counter);
      // Else it would be NOT_READY after 300 ms.
      assertEquals(CudaResult.ILLEGAL_STATE, driver().lock((int) counter.pid(), 300));
      assertEquals(CudaResult.SUCCESS, first.join());
      assertEquals(ProcessState.LOCKED, asked.join());
      assertMoves(unlock(counter), counter, ProcessState.RUNNING);
    }
  }

  @Test
  void unlockSentWhileALockWaitsIsDoneAfterIt() {
    try (Counter counter = counter()) {
      counter.spin(Duration.ofSeconds(8));
      CompletableFuture<CudaResult> lock = begin(() -> driver().lock((int) counter.pid(), FOREVER));
      NativeCalls.await("cuCheckpointProcessLock");
      CompletableFuture<ProcessState> asked = askInVain(counter);
      assertMoves(unlock(counter), counter, ProcessState.RUNNING);
      assertEquals(CudaResult.SUCCESS, lock.join());
      assertNotEquals(ProcessState.CHECKPOINTED, asked.join());
      assertEquals(101, counter.increment());
    }
  }

  @Test
  void sameVerbByTwoAtOnceIsDoneOnce() {
    try (Counter counter = counter()) {
      assertOneDoes(() -> lock(counter));
      assertOneDoes(() -> checkpoint(counter));
      assertOneDoes(() -> restore(counter));
      assertOneDoes(() -> unlock(counter));
      assertEquals(101, counter.increment());
    }
  }

  private static void assertOneDoes(Supplier<CudaResult> verb) {
    CompletableFuture<CudaResult> other = begin(verb);
    CudaResult mine = verb.get();
    assertEquals(Set.of(CudaResult.SUCCESS, CudaResult.ILLEGAL_STATE), Set.of(mine, other.join()));
  }

  @Test
  void checkpointClosesTheFilesOfNvmlWhoseCallsWaitForTheUnlock() {
    try (Counter counter = counter()) {
      counter.pollNvml();
      String first = counter.nvmlAnswers();
      await().atMost(20, SECONDS).until(() -> !counter.nvmlAnswers().equals(first));
      assertFalse(deviceFiles(counter).isEmpty());
      assertMoves(lock(counter), counter, ProcessState.LOCKED);
      long locked = nvmlAnswers(counter);
      assertMoves(checkpoint(counter), counter, ProcessState.CHECKPOINTED);
      assertEquals(List.of(), deviceFiles(counter));
      assertMoves(restore(counter), counter, ProcessState.LOCKED);
      // One may have been under way.
      long unlocked = nvmlAnswers(counter);
      assertTrue(unlocked <= locked + 1, locked + " answers, then " + unlocked);
      assertMoves(unlock(counter), counter, ProcessState.RUNNING);
      await().atMost(20, SECONDS).until(() -> nvmlAnswers(counter) > unlocked + 1);
      assertTrue(counter.nvmlAnswers().endsWith(" 0"), "no errors");
      assertEquals(101, counter.increment());
    }
  }

  private static long nvmlAnswers(Counter counter) {
    return Long.parseLong(counter.nvmlAnswers().split(" ", -1)[0]);
  }

  /** What CRIU would refuse. */
  private static List<String> deviceFiles(Workload workload) {
    return ProcFs.openFiles(workload.pid()).stream()
        .map(OpenFile::target)
        .filter(target -> target.contains("/dev/nvidia"))
        .toList();
  }

  @Test
  void everyResultHasItsNameAndText() {
    CudaResult result = driver().getState(-1).result();
    assertEquals("CUDA_ERROR_OPERATING_SYSTEM", result.name());
    assertNotNull(result.text());
    assertFalse(result.text().isBlank());
  }
}
