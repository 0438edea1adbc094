package dev.gpuprocess;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.mockito.ArgumentMatchers.any;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.when;

import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.cuda.Gpu;
import dev.gpuprocess.cuda.GpuInventory;
import dev.gpuprocess.cuda.GpuReading;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.InsufficientGpuMemoryException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.error.StaleStateException;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.Job;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.internal.cuda.LibNvml;
import dev.gpuprocess.internal.state.NamedLock;
import dev.gpuprocess.internal.state.StateDirectory;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.ResumeOptions;
import dev.gpuprocess.options.Timeouts;
import dev.gpuprocess.spi.CriuDriver;
import java.nio.file.Path;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Waiting for GPU memory, and its ends. */
@OutsideUse("B1")
@Tag("slow")
class RoomWaitTest {

  private static final ResumeOptions FOR_EVER =
      ResumeOptions.builder().waitForMemory(ChronoUnit.FOREVER.getDuration()).build();

  @TempDir Path state;
  private RoomOnGpu room;
  private FullGpu full;
  private Pattern pattern;
  private CheckpointedProcess suspended;

  @BeforeEach
  void suspend() {
    room = new RoomOnGpu();
    full = new FullGpu(LibNvml.in(room.machine.directory()));
    pattern = room.pattern();
    suspended = room.checkpoints(state, full).process(pattern.pid()).suspend();
    full.isFull = true;
  }

  @AfterEach
  void end() {
    pattern.close();
    room.close();
  }

  /** Reports no free memory until it is switched, and counts the calls. */
  private static final class FullGpu implements GpuInventory {
    private final GpuInventory real;
    private final AtomicInteger asked = new AtomicInteger();
    private final AtomicReference<Runnable> next = new AtomicReference<>(() -> {});
    private volatile boolean isFull;

    FullGpu(GpuInventory real) {
      this.real = real;
    }

    @Override
    public Optional<List<Gpu>> gpus() {
      return read().map(GpuReading::gpus);
    }

    @Override
    public Optional<GpuReading> read() {
      asked.incrementAndGet();
      next.getAndSet(() -> {}).run();
      return real.read()
          .map(
              seen ->
                  new GpuReading(
                      seen.gpus().stream().map(this::filled).toList(), seen.unreadable()));
    }

    private Gpu filled(Gpu gpu) {
      long free = isFull ? 0 : gpu.freeBytes();
      return new Gpu(gpu.uuid(), gpu.name(), gpu.totalBytes(), free, gpu.users());
    }

    @Override
    public Optional<String> driverVersion() {
      return real.driverVersion();
    }
  }

  /** A thread that waits for memory, and what came of it. */
  private final class Waiter {
    private final AtomicReference<Throwable> thrown = new AtomicReference<>();
    private volatile boolean interrupted;
    private final Thread thread;

    Waiter(Runnable body) {
      int before = full.asked.get();
      thread =
          new Thread(
              () -> {
                try {
                  body.run();
                } catch (RuntimeException e) {
                  thrown.set(e);
                }
                interrupted = Thread.currentThread().isInterrupted();
              });
      thread.start();
      // Twice at the attempt, then it waits.
      await().atMost(30, SECONDS).until(() -> full.asked.get() >= before + 3 || isOver());
    }

    boolean isOver() {
      return !thread.isAlive();
    }

    <T> T ends(Class<T> type) throws InterruptedException {
      thread.join(30_000);
      assertFalse(thread.isAlive(), "it waits on");
      return assertInstanceOf(type, thrown.get());
    }
  }

  private void assertStaysCheckpointedAndComesBack() {
    assertEquals(ProcessState.CHECKPOINTED, room.checkpoints(state).inspect(pattern.pid()).state());
    full.isFull = false;
    suspended.resume();
    assertEquals(RoomOnGpu.whole(), pattern.verify());
  }

  @Test
  void interrupted_endsAndKeepsTheFlag() throws InterruptedException {
    Waiter waiter = new Waiter(() -> suspended.resume(FOR_EVER));
    waiter.thread.interrupt();
    int asked = full.asked.get();
    assertTrue(waiter.ends(OperationCancelledException.class).getMessage().contains("interrupted"));
    assertTrue(waiter.interrupted);
    assertTrue(full.asked.get() < asked + 5, "it does not spin");
    assertStaysCheckpointedAndComesBack();
  }

  @Test
  void cancelled_ends() throws InterruptedException {
    Cancellation cancellation = new Cancellation();
    ResumeOptions options = FOR_EVER.toBuilder().cancellation(cancellation).build();
    Waiter waiter = new Waiter(() -> suspended.resume(options));
    cancellation.cancel();
    waiter.ends(OperationCancelledException.class);
    int asked = full.asked.get();
    assertThrows(OperationCancelledException.class, () -> suspended.resume(options));
    assertEquals(asked, full.asked.get(), "it ends before it begins");
    assertStaysCheckpointedAndComesBack();
  }

  private CheckpointedProcess found(Timeouts timeouts) {
    return (CheckpointedProcess)
        room.checkpoints(state, full).toBuilder().timeouts(timeouts).build().inspect(pattern.pid());
  }

  /** As when another JVM that reserves GPU memory is stopped. */
  @Test
  void reservationsAreLocked_waitsForThem() throws Exception {
    full.isFull = false;
    Timeouts hasty = Timeouts.builder().call(Duration.ofSeconds(8)).build();
    CheckpointedProcess found = found(hasty);
    NamedLock gate =
        new StateDirectory(state).lock("gpu-room", "restore", Duration.ofSeconds(30)).orElseThrow();
    Waiter waiter;
    try {
      waiter = new Waiter(() -> found.resume(FOR_EVER));
    } finally {
      gate.closeAndForget();
    }
    waiter.thread.join(30_000);
    assertNull(waiter.thrown.get());
    assertEquals(RoomOnGpu.whole(), pattern.verify());
  }

  @Test
  void processEnds_ends() throws InterruptedException {
    Waiter waiter = new Waiter(() -> suspended.resume(FOR_EVER));
    pattern.close();
    waiter.ends(NoSuchProcessException.class);
  }

  @Test
  void somebodyElseMovesIt_ends() throws InterruptedException {
    Waiter waiter = new Waiter(() -> suspended.resume(FOR_EVER));
    ((CheckpointedProcess) room.checkpoints(state).inspect(pattern.pid())).resume();
    waiter.ends(StaleStateException.class);
    assertEquals(RoomOnGpu.whole(), pattern.verify());
  }

  /** One of several may be nearer to running than the others, but not all of them. */
  @Test
  void somebodyElseMovesAllBeforeTheFirstLook_ends() {
    try (Job job = Job.launch(2, 1, 0).on(room.machine).start()) {
      CheckpointedProcess parked = room.checkpoints(state, full).process(job.pid()).suspend();
      CudaDriver driver = room.checkpoints(state).cuda();
      full.next.set(
          () ->
              parked
                  .members()
                  .forEach(
                      each -> {
                        assertTrue(driver.restore(each.process().pid(), Map.of()).ok());
                        assertTrue(driver.unlock(each.process().pid()).ok());
                      }));
      assertThrows(StaleStateException.class, () -> parked.resume(FOR_EVER));
    }
  }

  private void driverDoesNotAnswer() {
    room.machine.faults(Fault.in("cuCheckpointProcessGetState").hangs());
    await()
        .atMost(30, SECONDS)
        .until(
            () ->
                Thread.getAllStackTraces().keySet().stream()
                    .anyMatch(
                        each -> each.getName().equals("gpuprocess getState " + pattern.pid())));
  }

  @Test
  void cancelled_theDriverDoesNotAnswer_ends() throws InterruptedException {
    Cancellation cancellation = new Cancellation();
    ResumeOptions options = FOR_EVER.toBuilder().cancellation(cancellation).build();
    Waiter waiter = new Waiter(() -> suspended.resume(options));
    driverDoesNotAnswer();
    cancellation.cancel();
    waiter.ends(OperationCancelledException.class);
    room.machine.clearFaults();
    assertStaysCheckpointedAndComesBack();
  }

  @Test
  void interrupted_theDriverDoesNotAnswer_ends() throws InterruptedException {
    Waiter waiter = new Waiter(() -> suspended.resume(FOR_EVER));
    driverDoesNotAnswer();
    waiter.thread.interrupt();
    waiter.ends(OperationCancelledException.class);
    assertTrue(waiter.interrupted);
    room.machine.clearFaults();
    assertStaysCheckpointedAndComesBack();
  }

  @Test
  void timeIsOver_theDriverDoesNotAnswer_ends() throws InterruptedException {
    Duration time = Duration.ofSeconds(12);
    Waiter waiter =
        new Waiter(() -> suspended.resume(ResumeOptions.builder().waitForMemory(time).build()));
    driverDoesNotAnswer();
    waiter.ends(InsufficientGpuMemoryException.class);
    room.machine.clearFaults();
    assertStaysCheckpointedAndComesBack();
  }

  @Test
  void timeIsOver_saysSoAndDoesNotAdviseToWait() {
    int asked = full.asked.get();
    Duration time = Duration.ofMillis(700);
    InsufficientGpuMemoryException e =
        assertThrows(
            InsufficientGpuMemoryException.class,
            () -> suspended.resume(ResumeOptions.builder().waitForMemory(time).build()));
    assertTrue(e.getMessage().contains("within 700 ms"), e.getMessage());
    assertFalse(e.getMessage().contains("let resume wait"), e.getMessage());
    assertTrue(full.asked.get() - asked < 20, full.asked.get() - asked + " queries");
    assertStaysCheckpointedAndComesBack();
  }

  @Test
  void gpuCannotBeRead_endsSinceWaitingDoesNotMendIt() throws InterruptedException {
    Waiter waiter = new Waiter(() -> suspended.resume(FOR_EVER));
    room.machine.faults(Fault.in("nvmlDeviceGetMemoryInfo").answers(15));
    InsufficientGpuMemoryException e = waiter.ends(InsufficientGpuMemoryException.class);
    assertTrue(e.getMessage().contains("NVML cannot read"), e.getMessage());
    room.machine.clearFaults();
    assertStaysCheckpointedAndComesBack();
  }

  /** The driver may be slow for a moment, and the process would stay checkpointed for that. */
  @Test
  void oneLookThatIsNotAnswered_doesNotEndIt() throws InterruptedException {
    Timeouts hasty = Timeouts.builder().transfer(Duration.ofSeconds(8)).build();
    CheckpointedProcess found = found(hasty);
    Waiter waiter = new Waiter(() -> found.resume(FOR_EVER));
    room.machine.faults(
        Fault.in("cuCheckpointProcessGetState").call(1).hangs(Duration.ofSeconds(10)));
    int asked = full.asked.get();
    await().atMost(30, SECONDS).until(() -> full.asked.get() > asked + 2);
    room.machine.clearFaults();
    full.isFull = false;
    waiter.thread.join(30_000);
    assertNull(waiter.thrown.get());
    assertEquals(RoomOnGpu.whole(), pattern.verify());
  }

  @Test
  void close_waitsForMemory() throws InterruptedException {
    Waiter waiter = new Waiter(suspended::close);
    full.isFull = false;
    waiter.thread.join(30_000);
    assertEquals(RoomOnGpu.whole(), pattern.verify());
  }

  /** No caller would resume it later. */
  @Test
  void close_onAnInterruptedThread_waitsToo() throws InterruptedException {
    Waiter waiter =
        new Waiter(
            () -> {
              Thread.currentThread().interrupt();
              suspended.close();
            });
    int asked = full.asked.get();
    await().atMost(30, SECONDS).until(() -> full.asked.get() > asked + 1 || waiter.isOver());
    full.isFull = false;
    waiter.thread.join(30_000);
    assertNull(waiter.thrown.get());
    assertTrue(waiter.interrupted);
    assertEquals(RoomOnGpu.whole(), pattern.verify());
  }

  @Test
  void close_waitsAsLongAsTheTimeoutsSay() {
    Timeouts hasty = Timeouts.builder().memory(Duration.ZERO).build();
    CheckpointedProcess found = found(hasty);
    assertThrows(InsufficientGpuMemoryException.class, found::close);
    assertStaysCheckpointedAndComesBack();
  }

  @Test
  void whileItWaits_othersGetAtTheProcess() throws InterruptedException {
    Waiter waiter = new Waiter(() -> suspended.resume(FOR_EVER));
    GpuCheckpoints other = room.checkpoints(state);
    for (int i = 0; i < 20; i++) {
      assertEquals(ProcessState.CHECKPOINTED, other.inspect(pattern.pid()).state());
    }
    full.isFull = false;
    waiter.thread.join(30_000);
    assertEquals(RoomOnGpu.whole(), pattern.verify());
  }

  private GpuCheckpoints.Builder backAtWork() {
    full.isFull = false;
    suspended.resume();
    return room.checkpoints(state, full).toBuilder();
  }

  private void assertRunsOn() {
    await()
        .atMost(30, SECONDS)
        .ignoreExceptions()
        .until(
            () -> room.checkpoints(state).inspect(pattern.pid()).state() == ProcessState.RUNNING);
    assertEquals(RoomOnGpu.whole(), pattern.verify());
  }

  private CriuDriver criuThatFails(Runnable before) {
    CriuDriver criu = mock(CriuDriver.class);
    when(criu.dump(any(), any()))
        .thenAnswer(
            call -> {
              full.isFull = true;
              before.run();
              throw new AssertionError("no dump today");
            });
    return criu;
  }

  /** As when a pool that makes snapshots is shut down. */
  @Test
  void snapshot_threadIsInterrupted_waitsForMemoryToResume() {
    CriuDriver criu = criuThatFails(() -> Thread.currentThread().interrupt());
    RunningProcess running = backAtWork().criu(criu).build().process(pattern.pid());
    CompletableFuture<AssertionError> failed =
        CompletableFuture.supplyAsync(
            () ->
                assertThrows(AssertionError.class, () -> running.snapshot(state.resolve("image"))));
    await().atMost(30, SECONDS).until(() -> full.isFull);
    int asked = full.asked.get();
    await().atMost(30, SECONDS).until(() -> full.asked.get() > asked + 1 || failed.isDone());
    full.isFull = false;
    assertEquals(List.of(), List.of(failed.join().getSuppressed()));
    assertRunsOn();
  }

  /** What used the GPU while the process was away from it may free it a moment later. */
  @Test
  void snapshot_theDumpFailsWhileTheGpuIsFull_waitsForMemoryToResume() {
    CriuDriver criu = criuThatFails(() -> {});
    RunningProcess running = backAtWork().criu(criu).build().process(pattern.pid());
    CompletableFuture<AssertionError> failed =
        CompletableFuture.supplyAsync(
            () ->
                assertThrows(AssertionError.class, () -> running.snapshot(state.resolve("image"))));
    await().atMost(30, SECONDS).until(() -> full.isFull);
    int asked = full.asked.get();
    await().atMost(30, SECONDS).until(() -> full.asked.get() > asked);
    full.isFull = false;
    assertEquals(List.of(), List.of(failed.join().getSuppressed()));
    assertRunsOn();
  }

  @Test
  void suspend_endsLateWhileTheGpuIsFull_isUndoneWhenThereIsRoom() {
    Timeouts hasty = Timeouts.builder().transfer(Duration.ofSeconds(1)).build();
    RunningProcess running = backAtWork().timeouts(hasty).build().process(pattern.pid());
    room.machine.faults(Fault.in("cuCheckpointProcessCheckpoint").hangs());
    assertThrows(OperationTimedOutException.class, running::suspend);
    full.isFull = true;
    int asked = full.asked.get();
    room.machine.clearFaults();
    await().atMost(30, SECONDS).until(() -> full.asked.get() >= asked + 2);
    full.isFull = false;
    assertRunsOn();
  }
}
