package dev.gpuprocess;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.mockito.Mockito.mock;

import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.NotCudaProcessException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.error.ProcessUnfitException;
import dev.gpuprocess.error.StaleStateException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.LaunchOptions;
import dev.gpuprocess.options.ResumeOptions;
import dev.gpuprocess.options.SuspendOptions;
import dev.gpuprocess.options.Timeouts;
import dev.gpuprocess.spi.CriuDriver;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Callers that do not know the state of a process, or do not wait for a verb. */
@SimulatedGpu
record ResumeAnyTest(SimulatedDriver machine, GpuCheckpoints gpus, Counter counter) {

  private static final Duration PATIENCE = Duration.ofSeconds(60);

  @Test
  void resume_fromEveryState_makesItRun() throws Exception {
    assertEquals(ProcessState.RUNNING, gpus.resume(counter.pid()).state());
    gpus.process(counter.pid()).lock();
    assertEquals(ProcessState.RUNNING, gpus.resume(counter.pid()).state());
    gpus.process(counter.pid()).suspend();
    assertEquals(ProcessState.RUNNING, gpus.resume(counter.pid()).state());
    assertEquals(101, counter.increment());
  }

  @Test
  void resume_byTwoThreadsAtATime_makesItRun() throws Exception {
    ExecutorService executor = Executors.newFixedThreadPool(2);
    try {
      for (int round = 0; round < 20; round++) {
        gpus.process(counter.pid()).suspend();
        List<Callable<ProcessState>> two =
            Collections.nCopies(2, () -> gpus.resume(counter.pid()).state());
        for (Future<ProcessState> each : executor.invokeAll(two)) {
          assertEquals(ProcessState.RUNNING, each.get());
        }
      }
      assertEquals(101, counter.increment());
    } finally {
      executor.shutdownNow();
    }
  }

  @Test
  void resume_whileALongVerbIsAtWork_waitsForIt() throws Exception {
    GpuCheckpoints impatient =
        gpus.toBuilder().timeouts(Timeouts.builder().call(Duration.ofMillis(200)).build()).build();
    try (HeldVerb other =
        HeldVerb.start(gpus, there -> there.process(counter.pid()).suspend().resume())) {
      CompletableFuture<RunningProcess> resumed =
          CompletableFuture.supplyAsync(() -> impatient.resume(counter.pid()));
      ResumeOptions soon = ResumeOptions.builder().deadline(Duration.ofMillis(1)).build();
      assertThrows(OperationInProgressException.class, () -> impatient.resume(counter.pid(), soon));
      other.letGo();
      assertEquals(ProcessState.RUNNING, resumed.get(3, TimeUnit.MINUTES).state());
    }
    assertEquals(101, counter.increment());
  }

  @Test
  void verbsOnThisJvm_areRefusedByName() {
    long self = ProcessHandle.current().pid();
    NotCudaProcessException refused =
        assertThrows(NotCudaProcessException.class, () -> gpus.process(self));
    assertTrue(String.valueOf(refused.getMessage()).contains("this JVM itself"));
    assertThrows(NotCudaProcessException.class, () -> gpus.suspend(self));
  }

  @Test
  void failuresOnThreadsOfTheLibrary_haveTheFramesOfTheCaller(@TempDir Path directory)
      throws Exception {
    Path file = Files.createFile(directory.resolve("file"));
    GpuCheckpoints dumping = gpus.toBuilder().criu(mock(CriuDriver.class)).build();
    try (CheckpointedProcess suspended = dumping.process(counter.pid()).suspend()) {
      ImageException ofDisk =
          assertThrows(ImageException.class, () -> suspended.dump(file.resolve("image")));
      assertTrue(
          Stream.of(ofDisk.getStackTrace())
              .anyMatch(each -> each.getClassName().equals(ResumeAnyTest.class.getName())),
          () -> List.of(ofDisk.getStackTrace()).toString());
    }
  }

  @Test
  void gpuBytes_areThoseOfAllMembers() {
    RunningProcess running = gpus.process(counter.pid());
    assertEquals(running.members().get(0).gpuBytes(), running.gpuBytes());
    assertFalse(running.gpuBytes().isEmpty());
    LaunchOptions.Builder copied = LaunchOptions.builder(List.of("echo", "a b"));
    assertEquals(List.of("echo", "a b"), copied.build().command());
    assertThrows(IllegalArgumentException.class, () -> LaunchOptions.builder(List.of()));
  }

  @Test
  void removeOfAnImageThatIsGone_isDone(@TempDir Path images) {
    assertEquals(Optional.empty(), gpus.store(images).remove(images.resolve("none")));
  }

  @Test
  void resume_noSuchProcess_throws() {
    counter.kill();
    assertTrue(counter.awaitExit(PATIENCE));
    assertThrows(NoSuchProcessException.class, () -> gpus.resume(counter.pid()));
  }

  @Test
  void suspend_withALabel_otherControllersFindIt() {
    SuspendOptions labelled = SuspendOptions.builder().label("night job 7").build();
    CheckpointedProcess suspended = gpus.process(counter.pid()).suspend(labelled);
    assertEquals(Optional.of("night job 7"), suspended.label());
    assertEquals("night job 7", gpus.suspended().get(0).label());
    assertEquals(Optional.of("night job 7"), gpus.inspect(counter.pid()).label());
    assertEquals(Optional.empty(), suspended.resume().label());
    assertThrows(IllegalArgumentException.class, () -> SuspendOptions.builder().label(" "));
    assertEquals(101, counter.increment());
  }

  @Test
  void suspendThatFails_leavesNoLabel() {
    RunningProcess running = gpus.process(counter.pid());
    machine.faults(Fault.in("cuCheckpointProcessCheckpoint").call(1).answers(801));
    SuspendOptions labelled = SuspendOptions.builder().label("night job 7").build();
    assertThrows(ProcessUnfitException.class, () -> running.suspend(labelled));
    assertEquals(Optional.empty(), running.label());
    try (CheckpointedProcess suspended = running.suspend()) {
      assertEquals(Optional.empty(), suspended.label());
      assertNull(gpus.suspended().get(0).label());
    }
    assertEquals(101, counter.increment());
  }

  @Test
  void awaitExit_onAnyState() {
    RunningProcess running = gpus.process(counter.pid());
    assertFalse(running.awaitExit(Duration.ZERO));
    CheckpointedProcess suspended = running.suspend();
    assertFalse(suspended.awaitExit(Duration.ofMillis(1)));
    assertThrows(IllegalArgumentException.class, () -> suspended.awaitExit(Duration.ofMillis(-1)));
    counter.kill();
    assertTrue(suspended.awaitExit(PATIENCE));
  }

  @Test
  void async_completesWithWhatTheVerbReturnsOrThrows() throws Exception {
    ExecutorService executor = Executors.newSingleThreadExecutor();
    try {
      RunningProcess running = gpus.process(counter.pid());
      CheckpointedProcess suspended =
          Cancellation.async(executor, by -> running.suspend(cancelledBy(by)))
              .get(60, TimeUnit.SECONDS);
      Throwable stale =
          assertThrows(
                  ExecutionException.class,
                  () ->
                      Cancellation.async(executor, by -> running.suspend(cancelledBy(by)))
                          .get(60, TimeUnit.SECONDS))
              .getCause();
      assertInstanceOf(StaleStateException.class, stale);
      suspended.resume();
      assertEquals(101, counter.increment());
    } finally {
      executor.shutdownNow();
    }
  }

  @Test
  void async_cancelledFuture_cancelsTheVerb() throws Exception {
    machine.faults(Fault.in("cuCheckpointProcessCheckpoint").hangs());
    ExecutorService executor = Executors.newSingleThreadExecutor();
    CountDownLatch begun = new CountDownLatch(1);
    CountDownLatch mayEnd = new CountDownLatch(1);
    AtomicReference<Throwable> thrown = new AtomicReference<>();
    try {
      RunningProcess running = gpus.process(counter.pid());
      CompletableFuture<CheckpointedProcess> future =
          Cancellation.async(
              executor,
              by -> {
                begun.countDown();
                try {
                  return running.suspend(cancelledBy(by));
                } catch (OperationCancelledException e) {
                  thrown.set(e);
                  HeldVerb.await(mayEnd);
                  throw e;
                }
              });
      assertTrue(begun.await(60, TimeUnit.SECONDS));
      assertTrue(future.cancel(true));
      machine.clearFaults();
      assertFalse(future.isDone(), "the verb has not ended");
      mayEnd.countDown();
      assertInstanceOf(
          OperationCancelledException.class,
          assertThrows(CompletionException.class, future::join).getCause());
      assertFalse(future.cancel(true), "too late");
      executor.shutdown();
      assertTrue(executor.awaitTermination(60, TimeUnit.SECONDS));
      assertInstanceOf(OperationCancelledException.class, thrown.get());
      assertEquals(ProcessState.RUNNING, gpus.inspect(counter.pid()).state());
      assertEquals(101, counter.increment());
    } finally {
      executor.shutdownNow();
    }
  }

  /** No caller has the state object that the verb returns. */
  @Test
  void async_cancelledTooLate_resumesWhatTheVerbHasSuspended() {
    AtomicReference<Runnable> task = new AtomicReference<>();
    AtomicReference<CompletableFuture<CheckpointedProcess>> future = new AtomicReference<>();
    RunningProcess running = gpus.process(counter.pid());
    future.set(
        Cancellation.async(
            task::set,
            by -> {
              CheckpointedProcess suspended = running.suspend();
              assertTrue(future.get().cancel(true));
              return suspended;
            }));
    task.get().run();
    assertTrue(future.get().isCancelled());
    assertEquals(ProcessState.RUNNING, gpus.inspect(counter.pid()).state());
    AtomicReference<CompletableFuture<String>> image = new AtomicReference<>();
    image.set(
        Cancellation.async(
            task::set,
            by -> {
              assertTrue(image.get().cancel(true));
              return "an image";
            }));
    task.get().run();
    assertEquals("an image", image.get().join());
    CompletableFuture<String> neverBegun = Cancellation.async(task::set, by -> "not run");
    assertTrue(neverBegun.cancel(true));
    assertTrue(neverBegun.isCancelled());
    task.get().run();
    assertThrows(CancellationException.class, neverBegun::join);
    assertEquals(101, counter.increment());
  }

  @Test
  void suspend_interruptedWhileAnotherVerbIsAtWork_endsWhenThatHasEnded() throws Exception {
    AtomicReference<Throwable> thrown = new AtomicReference<>();
    AtomicBoolean interrupted = new AtomicBoolean();
    Thread waiter =
        new Thread(
            () -> {
              try {
                gpus.suspend(counter.pid());
              } catch (RuntimeException e) {
                thrown.set(e);
              }
              interrupted.set(Thread.currentThread().isInterrupted());
            });
    try (HeldVerb other =
        HeldVerb.start(gpus, there -> there.process(counter.pid()).suspend().resume())) {
      waiter.start();
      waiter.interrupt();
      // The pauses of the wait keep the interrupt for later.
      Workload.await(() -> !waiter.isInterrupted(), "the wait for the other verb");
      assertTrue(waiter.isAlive());
      other.letGo();
    }
    waiter.join(PATIENCE.toMillis());
    assertInstanceOf(OperationCancelledException.class, thrown.get());
    assertTrue(interrupted.get());
    assertEquals(ProcessState.RUNNING, gpus.inspect(counter.pid()).state());
    assertEquals(101, counter.increment());
  }

  private static SuspendOptions cancelledBy(Cancellation cancellation) {
    return SuspendOptions.builder().cancellation(cancellation).build();
  }
}
