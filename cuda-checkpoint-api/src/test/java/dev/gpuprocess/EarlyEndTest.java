package dev.gpuprocess;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.mockito.Mockito.mock;

import dev.gpuprocess.contract.LaunchedTree;
import dev.gpuprocess.contract.NativeCalls;
import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.LockTimeoutException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.Job;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.internal.cuda.LibNvml;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.ResumeOptions;
import dev.gpuprocess.options.SuspendOptions;
import dev.gpuprocess.options.Timeouts;
import dev.gpuprocess.report.StepListener;
import dev.gpuprocess.spi.CriuDriver;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Verbs that are cancelled, interrupted or late: the state of the process, and how soon. */
@SimulatedGpu(gpus = 2, mebibytes = 2048)
@Tag("slow")
class EarlyEndTest {

  /** Much longer than a verb takes to end early. */
  private static final Duration LONG = Duration.ofMinutes(2);

  /** The longest time of an early end on a busy machine; 100 ms on an idle one. */
  private static final long SOON_SECONDS = 60;

  private final SimulatedDriver machine;
  private final GpuCheckpoints checkpoints;
  private final Counter counter;
  private final LaunchedTree tree;
  private RunningProcess running;
  private final Cancellation cancellation = new Cancellation();
  private final CountDownLatch begun = new CountDownLatch(1);

  EarlyEndTest(
      SimulatedDriver machine, GpuCheckpoints checkpoints, Counter counter, LaunchedTree tree) {
    this.machine = machine;
    this.checkpoints = checkpoints;
    this.counter = counter;
    this.tree = tree;
  }

  /** A call that was abandoned must end before the machine's files are removed. */
  @AfterEach
  void awaitLateCalls() {
    machine.clearFaults();
    tree.machine().clearFaults();
    NativeCalls.awaitNoneLeftBehind();
  }

  /** Counts down when a driver call is made. */
  private GpuCheckpoints tellingOf(GpuCheckpoints checkpoints, Path machine, String function) {
    CudaDriver driver = checkpoints.cuda();
    CudaDriver telling =
        (CudaDriver)
            Proxy.newProxyInstance(
                CudaDriver.class.getClassLoader(),
                new Class<?>[] {CudaDriver.class},
                (proxy, method, args) -> {
                  if (method.getName().equals(function)) {
                    begun.countDown();
                  }
                  try {
                    return method.invoke(driver, args);
                  } catch (InvocationTargetException e) {
                    throw e.getCause();
                  }
                });
    return checkpoints.toBuilder().cuda(telling, LibNvml.in(machine)).build();
  }

  private RunningProcess tellingOf(String function) {
    return tellingOf(checkpoints, machine.directory(), function).process(counter.pid());
  }

  private RunningProcess tellingOfLock(Job launched) {
    return tellingOf(tree.checkpoints(), tree.machine().directory(), "lock")
        .process(launched.pid());
  }

  private SuspendOptions patient() {
    return SuspendOptions.builder().lockTimeout(LONG).cancellation(cancellation).build();
  }

  private void assertRuns() {
    assertInstanceOf(RunningProcess.class, checkpoints.inspect(counter.pid()));
    assertEquals(101, counter.increment());
    assertEquals(0, tree.entries());
  }

  /** A verb on a thread that can be interrupted. */
  private static final class Running {

    final AtomicBoolean staysInterrupted = new AtomicBoolean();
    final FutureTask<GpuCheckpointException> failure;
    final Thread thread;

    Running(Runnable verb) {
      failure =
          new FutureTask<>(
              () -> {
                GpuCheckpointException thrown =
                    assertThrows(GpuCheckpointException.class, verb::run);
                staysInterrupted.set(Thread.interrupted());
                return thrown;
              });
      thread = new Thread(failure, "verb");
      thread.setDaemon(true);
      thread.start();
    }

    GpuCheckpointException soon() throws Exception {
      return failure.get(SOON_SECONDS, TimeUnit.SECONDS);
    }
  }

  /** The late call removes its journal entry only after the process runs. */
  private void awaitRunning(GpuCheckpoints asked, long pid) {
    await()
        .atMost(60, SECONDS)
        .ignoreExceptionsInstanceOf(OperationInProgressException.class)
        .until(() -> asked.inspect(pid) instanceof RunningProcess && tree.entries() == 0);
  }

  private Running waitingForGpuWork() throws Exception {
    machine.faults(Fault.in("cuCheckpointProcessLock").after().hangs());
    running = tellingOf("lock");
    Running suspend = new Running(() -> running.suspend(patient()));
    begun.await();
    return suspend;
  }

  private void assertUnlockedWhenTheDriverReturns(GpuCheckpointException ended) {
    assertInstanceOf(OperationCancelledException.class, ended);
    assertEquals(ProcessState.RUNNING, ended.failure().before());
    String message = String.valueOf(ended.getMessage());
    assertTrue(
        message.contains("is brought back to running when the driver's call returns"), message);
    assertThrows(OperationInProgressException.class, running::lock);
    machine.clearFaults();
    awaitRunning(checkpoints, counter.pid());
    assertRuns();
  }

  @Test
  void cancelledSuspendThatWaitsForGpuWorkReturnsSoonAndIsUndone() throws Exception {
    Running suspend = waitingForGpuWork();
    cancellation.cancel();
    GpuCheckpointException ended = suspend.soon();
    assertTrue(String.valueOf(ended.getMessage()).contains("was cancelled"), ended::getMessage);
    assertUnlockedWhenTheDriverReturns(ended);
  }

  @Test
  void interruptedSuspendThatWaitsForGpuWorkReturnsSoonAndIsUndone() throws Exception {
    Running suspend = waitingForGpuWork();
    suspend.thread.interrupt();
    GpuCheckpointException ended = suspend.soon();
    assertTrue(suspend.staysInterrupted.get());
    assertTrue(String.valueOf(ended.getMessage()).contains("interrupted"), ended::getMessage);
    assertUnlockedWhenTheDriverReturns(ended);
  }

  @Test
  void kernelsUnderWayEndAndTheProcessRunsOn() throws Exception {
    RunningProcess running = tellingOf("lock");
    counter.spin(Duration.ofSeconds(10));
    Running suspend = new Running(() -> running.suspend(patient()));
    begun.await();
    cancellation.cancel();
    assertInstanceOf(OperationCancelledException.class, suspend.soon());
    awaitRunning(checkpoints, counter.pid());
    assertRuns();
  }

  @Test
  void resumeWhoseRestoreHangsEndsAtItsDeadlineOrWhenItIsCancelled() throws Exception {
    GpuCheckpoints telling =
        tellingOf(checkpoints, machine.directory(), "restore").toBuilder()
            .timeouts(Timeouts.builder().call(Duration.ofSeconds(3)).build())
            .build();
    Fault hang = Fault.in("cuCheckpointProcessRestore").after().hangs();
    ResumeOptions within = ResumeOptions.builder().deadline(Duration.ofMillis(100)).build();
    ResumeOptions until = ResumeOptions.builder().cancellation(cancellation).build();

    CheckpointedProcess again = telling.process(counter.pid()).suspend();
    machine.faults(hang);
    Running cancelled = new Running(() -> again.resume(until));
    begun.await();
    cancellation.cancel();
    assertInstanceOf(OperationCancelledException.class, cancelled.soon());
    machine.clearFaults();
    awaitRunning(telling, counter.pid());

    CheckpointedProcess suspended = telling.process(counter.pid()).suspend();
    machine.faults(hang);
    Running late = new Running(() -> suspended.resume(within));
    GpuCheckpointException ended = late.soon();
    assertInstanceOf(OperationTimedOutException.class, ended);
    String message = String.valueOf(ended.getMessage());
    assertTrue(message.contains("within its deadline of 100 ms"), message);
    assertTrue(message.contains("is brought back to running when"), message);
    machine.clearFaults();
    awaitRunning(telling, counter.pid());
    assertRuns();
  }

  private RunningProcess hangingInTheCheckpoint() {
    machine.faults(Fault.in("cuCheckpointProcessCheckpoint").after().hangs());
    return tellingOf("checkpoint");
  }

  private Running duringTheCheckpoint() throws Exception {
    RunningProcess running = hangingInTheCheckpoint();
    Running suspend = new Running(() -> running.suspend(patient()));
    begun.await();
    return suspend;
  }

  private void assertUndone(GpuCheckpointException ended) {
    String message = String.valueOf(ended.getMessage());
    assertTrue(message.contains("not before the driver had finished the checkpoint"), message);
    assertTrue(message.endsWith("; pid " + counter.pid() + " is running again"), message);
    assertEquals(ProcessState.RUNNING, ended.failure().before());
    assertEquals(ProcessState.RUNNING, ended.failure().after());
    assertRuns();
  }

  @Test
  void checkpointUnderWayIsFinishedAndUndoneWhenItIsCancelled() throws Exception {
    Running suspend = duringTheCheckpoint();
    cancellation.cancel();
    machine.clearFaults();
    GpuCheckpointException ended = suspend.soon();
    assertInstanceOf(OperationCancelledException.class, ended);
    assertUndone(ended);
  }

  @Test
  void checkpointUnderWayIsFinishedAndUndoneWhenItsThreadIsInterrupted() throws Exception {
    Running suspend = duringTheCheckpoint();
    suspend.thread.interrupt();
    machine.clearFaults();
    GpuCheckpointException ended = suspend.soon();
    assertTrue(suspend.staysInterrupted.get());
    assertInstanceOf(OperationCancelledException.class, ended);
    assertUndone(ended);
  }

  @Test
  void checkpointThatOutlastsTheDeadlineIsFinishedAndUndone() throws Exception {
    RunningProcess running = hangingInTheCheckpoint();
    SuspendOptions hasty = within(2);
    Running suspend = suspending(running, hasty);
    while (!hasBegun(suspend)) {
      hasty = within(2 * (int) hasty.deadline().toSeconds());
      suspend = suspending(running, hasty);
    }
    // The time of the suspend began before this.
    long end = System.nanoTime() + hasty.deadline().toNanos();
    await().atMost(30, SECONDS).until(() -> System.nanoTime() - end > 0);
    machine.clearFaults();
    GpuCheckpointException ended = suspend.soon();
    assertInstanceOf(OperationTimedOutException.class, ended);
    assertUndone(ended);
  }

  private static Running suspending(RunningProcess running, SuspendOptions options) {
    return new Running(() -> running.suspend(options));
  }

  private static SuspendOptions within(int seconds) {
    return SuspendOptions.builder().lockTimeout(LONG).deadline(Duration.ofSeconds(seconds)).build();
  }

  /** Returns false if the time was over before the driver was called. */
  private boolean hasBegun(Running verb) {
    await().atMost(60, SECONDS).until(() -> begun.getCount() == 0 || verb.failure.isDone());
    return begun.getCount() == 0;
  }

  @Test
  void lockWaitsNoLongerThanTheDeadline() {
    RunningProcess running = tellingOf("lock");
    GpuCheckpointException ended = null;
    for (int seconds = 2; begun.getCount() > 0; seconds *= 2) {
      counter.spin(Duration.ofSeconds(8L * seconds));
      SuspendOptions hasty = within(seconds);
      ended = assertThrows(GpuCheckpointException.class, () -> running.suspend(hasty));
    }
    assertInstanceOf(LockTimeoutException.class, ended);
    assertRuns();
  }

  @Test
  void cancelledSuspendOfAJobLetsAllMembersGo() throws Exception {
    Job launched = tree.launch(0);
    tree.machine()
        .faults(
            Fault.in("cuCheckpointProcessLock").pid(launched.member(1)).call(1).after().hangs());
    RunningProcess running = tellingOfLock(launched);
    Running suspend = new Running(() -> running.suspend(patient()));
    begun.await();
    cancellation.cancel();
    assertInstanceOf(OperationCancelledException.class, suspend.soon());
    tree.machine().clearFaults();
    awaitRunning(tree.checkpoints(), launched.pid());
    LaunchedTree.assertGoesOn(launched, LaunchedTree.MEMBERS);
    assertEquals(0, tree.entries());
  }

  @Test
  void interruptedSuspendOfAJobLetsAllMembersGo() throws Exception {
    Job launched = tree.launch(0);
    tree.machine()
        .faults(
            Fault.in("cuCheckpointProcessLock").pid(launched.member(1)).call(1).after().hangs());
    RunningProcess running = tellingOfLock(launched);
    Running suspend = new Running(() -> running.suspend(patient()));
    begun.await();
    suspend.thread.interrupt();
    assertInstanceOf(OperationCancelledException.class, suspend.soon());
    assertTrue(suspend.staysInterrupted.get());
    tree.machine().clearFaults();
    awaitRunning(tree.checkpoints(), launched.pid());
    LaunchedTree.assertGoesOn(launched, LaunchedTree.MEMBERS);
  }

  private void assertNothingWasTouched(Runnable verb) {
    OperationCancelledException cancelled =
        assertThrows(OperationCancelledException.class, verb::run);
    String message = String.valueOf(cancelled.getMessage());
    assertTrue(message.contains("before it began: nothing was touched"), message);
    assertEquals(1, begun.getCount(), "no step was begun");
  }

  private GpuCheckpoints tellingOfAnything() {
    StepListener telling =
        new StepListener() {
          @Override
          public void started(String name, int pid) {
            begun.countDown();
          }
        };
    return checkpoints.toBuilder().criu(mock(CriuDriver.class)).listener(telling).build();
  }

  @Test
  void whatWasCancelledBeforehandTouchesNothing() {
    cancellation.cancel();
    DumpOptions options = DumpOptions.builder().cancellation(cancellation).build();
    Path image = machine.directory().resolve("image");
    RunningProcess running = tellingOfAnything().process(counter.pid());
    assertNothingWasTouched(() -> running.snapshot(image, options));
    assertNothingWasTouched(() -> running.dump(image, options));
    assertNothingWasTouched(() -> running.suspend(patient()));
    assertTrue(Files.notExists(image));
    CheckpointedProcess suspended = checkpoints.process(counter.pid()).suspend();
    CheckpointedProcess found = (CheckpointedProcess) tellingOfAnything().inspect(counter.pid());
    assertNothingWasTouched(() -> found.dump(image, options));
    assertThrows(
        OperationCancelledException.class,
        () -> found.resume(ResumeOptions.builder().cancellation(cancellation).build()));
    assertEquals(1, begun.getCount(), "no step was begun");
    suspended.resume();
    assertRuns();
  }

  @Test
  void whatWasInterruptedBeforehandTouchesNothing() {
    RunningProcess running = tellingOfAnything().process(counter.pid());
    for (Runnable verb :
        List.<Runnable>of(
            running::suspend,
            running::lock,
            () -> running.snapshot(machine.directory().resolve("image")))) {
      Thread.currentThread().interrupt();
      try {
        assertNothingWasTouched(verb);
      } finally {
        assertTrue(Thread.interrupted(), "the thread stays interrupted");
      }
    }
    running.suspend().resume();
    assertRuns();
  }
}
