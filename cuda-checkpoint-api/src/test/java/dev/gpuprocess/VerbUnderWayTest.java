package dev.gpuprocess;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.mockito.ArgumentMatchers.any;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.when;

import dev.gpuprocess.contract.LaunchedTree;
import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.error.ProcessUnfitException;
import dev.gpuprocess.error.UnsupportedResource;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.Job;
import dev.gpuprocess.fixtures.Signal;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.cuda.LibNvml;
import dev.gpuprocess.internal.engine.TrackedProcess;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.report.Finding;
import dev.gpuprocess.spi.CriuDriver;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** A process that is taken while a verb is under way can be taken later, and nothing is to mend. */
@SimulatedGpu(gpus = 2, mebibytes = 2048)
record VerbUnderWayTest(
    SimulatedDriver machine, GpuCheckpoints checkpoints, Counter counter, LaunchedTree tree) {

  private static final int ATTEMPTS = 40;

  private static void assertNames(
      OperationInProgressException busy, long controller, Instant begun) {
    assertEquals("suspend", busy.verb().orElseThrow());
    assertEquals(controller, busy.controller().orElseThrow());
    Instant since = busy.since().orElseThrow();
    assertFalse(since.isBefore(begun) || since.isAfter(Instant.now()), since::toString);
    String message = String.valueOf(busy.getMessage());
    assertTrue(message.contains("in the middle of suspend by "), message);
    assertTrue(message.contains("pid " + controller), message);
    assertTrue(message.contains("since " + since), message);
  }

  private void assertRuns() {
    checkpoints.process(counter.pid()).suspend().resume();
    assertEquals(101, counter.increment());
  }

  /** To the millisecond, as the time of the other verb. */
  private static Instant now() {
    return Instant.ofEpochMilli(System.currentTimeMillis());
  }

  @Test
  void processThatAnotherThreadSuspendsIsRefusedForNow() {
    Instant begun = now();
    try (HeldVerb other =
        HeldVerb.start(checkpoints, there -> there.process(counter.pid()).suspend().resume())) {
      OperationInProgressException busy =
          assertThrows(
              OperationInProgressException.class,
              () -> checkpoints.process(counter.pid()).suspend());
      assertNames(busy, ProcessHandle.current().pid(), begun);
      other.letGo();
    }
    assertRuns();
  }

  @Test
  void processThatAnotherJvmSuspendsIsRefusedForNow() throws IOException {
    Instant begun = now();
    try (OtherController other =
        OtherController.suspending(machine, machine.stateDirectory(), counter.pid())) {
      OperationInProgressException busy =
          assertThrows(
              OperationInProgressException.class,
              () -> checkpoints.process(counter.pid()).suspend());
      assertNames(busy, other.pid(), begun);
    }
    checkpoints.recover();
    assertRuns();
  }

  @Test
  void jobThatAnotherThreadSuspendsIsRefusedForNow() {
    Job launched = tree.launch(0);
    GpuCheckpoints checkpoints = tree.checkpoints();
    Instant begun = now();
    try (HeldVerb other =
        HeldVerb.start(checkpoints, there -> there.process(launched.pid()).suspend().resume())) {
      long self = ProcessHandle.current().pid();
      assertNames(
          assertThrows(
              OperationInProgressException.class,
              () -> checkpoints.process(launched.pid()).suspend()),
          self,
          begun);
      for (int i = 0; i < LaunchedTree.MEMBERS; i++) {
        int member = launched.member(i);
        assertNames(
            assertThrows(
                OperationInProgressException.class, () -> checkpoints.process(member).suspend()),
            self,
            begun);
      }
      other.letGo();
    }
    checkpoints.process(launched.pid()).suspend().resume();
    LaunchedTree.assertGoesOn(launched, LaunchedTree.MEMBERS);
  }

  /** A process that another verb traces for a moment does not need an operator. */
  @Test
  void snapshotIsRefusedForNowBeforeAnythingIsChecked() {
    CriuDriver criu = mock(CriuDriver.class);
    when(criu.preflight(any(), any())).thenReturn(List.of(tracer()));
    RunningProcess running = checkpoints.toBuilder().criu(criu).build().process(counter.pid());
    Instant begun = now();
    try (HeldVerb other =
        HeldVerb.start(checkpoints, there -> there.process(counter.pid()).suspend().resume())) {
      assertNames(
          assertThrows(
              OperationInProgressException.class,
              () -> running.snapshot(machine.directory().resolve("image"))),
          ProcessHandle.current().pid(),
          begun);
      other.letGo();
    }
    assertRuns();
  }

  private Finding tracer() {
    return new Finding(
        Finding.Severity.PROBLEM,
        "tracer",
        "it is traced",
        "end the tracer",
        new UnsupportedResource(
            UnsupportedResource.Kind.OTHER, (int) counter.pid(), "tracer 1", "", null));
  }

  @Test
  void processThatRestsSuspendedIsAWrongState() {
    checkpoints.process(counter.pid()).suspend();
    FixAndRetryException wrong =
        assertReason(
            FixAndRetryException.class,
            FixAndRetryException.Reason.WRONG_STATE,
            () -> checkpoints.process(counter.pid()));
    assertEquals(ProcessState.CHECKPOINTED, wrong.failure().after());
  }

  /** The process is away from running only while a verb is under way, as each of them is undone. */
  @Test
  void verbsThatComeAtAnyMomentAreRefusedForNow() {
    machine.faults(Fault.in("cuCheckpointProcessCheckpoint").answers(801));
    CompletableFuture<List<RuntimeException>> others =
        CompletableFuture.supplyAsync(this::failToSuspend);
    List<RuntimeException> thrown = new ArrayList<>(failToSuspend());
    thrown.addAll(others.join());
    assertEquals(2 * ATTEMPTS, thrown.size());
    assertEquals(
        List.of(),
        thrown.stream()
            .filter(
                each ->
                    !(each instanceof OperationInProgressException)
                        && !(each instanceof ProcessUnfitException unfit
                            && unfit.reason()
                                == ProcessUnfitException.Reason.UNSUPPORTED_BY_DRIVER))
            .toList());
    machine.clearFaults();
    assertRuns();
  }

  private List<RuntimeException> failToSuspend() {
    return Stream.generate(
            () ->
                assertThrows(
                    RuntimeException.class, () -> checkpoints.process(counter.pid()).suspend()))
        .limit(ATTEMPTS)
        .toList();
  }

  /** Ends the other verb after our look has found the process locked. */
  private GpuCheckpoints lookingBeforeTheEndOf(HeldVerb other) {
    CudaDriver driver = checkpoints.cuda();
    AtomicBoolean first = new AtomicBoolean(true);
    CudaDriver late =
        (CudaDriver)
            Proxy.newProxyInstance(
                CudaDriver.class.getClassLoader(),
                new Class<?>[] {CudaDriver.class},
                (proxy, method, args) -> {
                  try {
                    Object answer = method.invoke(driver, args);
                    if (method.getName().equals("getState") && first.getAndSet(false)) {
                      other.letGo();
                    }
                    return answer;
                  } catch (InvocationTargetException e) {
                    throw e.getCause();
                  }
                });
    return checkpoints.toBuilder().cuda(late, LibNvml.in(machine.directory())).build();
  }

  @Test
  void verbThatFailedJustAfterTheLookHasLeftARunningProcess() {
    machine.faults(Fault.in("cuCheckpointProcessCheckpoint").call(1).answers(801));
    try (HeldVerb other =
        HeldVerb.start(checkpoints, there -> there.process(counter.pid()).suspend())) {
      lookingBeforeTheEndOf(other).process(counter.pid()).suspend().resume();
    }
    assertRuns();
  }

  @Test
  void verbThatEndedJustAfterTheLookHasLeftASuspendedProcess() {
    try (HeldVerb other =
        HeldVerb.start(checkpoints, there -> there.process(counter.pid()).suspend())) {
      FixAndRetryException wrong =
          assertReason(
              FixAndRetryException.class,
              FixAndRetryException.Reason.WRONG_STATE,
              () -> lookingBeforeTheEndOf(other).process(counter.pid()));
      assertEquals(ProcessState.CHECKPOINTED, wrong.failure().after());
    }
  }

  /** CRIU may stop a process right after a verb has seen that it runs. */
  @Test
  void aProcessThatCriuStopsForAnotherVerb_isNotToBeMended() {
    EngineContext context = checkpoints.context();
    TrackedProcess process = TrackedProcess.of(context, counter.pid(), "test");
    Signal.send("STOP", counter.pid());
    try {
      await().atMost(30, SECONDS).until(() -> ProcFs.stat(counter.pid()).orElseThrow().isStopped());
      assertReason(
          FixAndRetryException.class,
          FixAndRetryException.Reason.PROCESS_STOPPED,
          () -> process.requireReachable("test"));
      ProcessLock lock =
          ProcessLock.take(
              process.key,
              process.pid(),
              "snapshot",
              ProcessLock.Kind.MOVE,
              context.state(),
              Duration.ZERO);
      try {
        lock.atCriu(true);
        OperationInProgressException busy =
            assertThrows(
                OperationInProgressException.class, () -> process.requireReachable("test"));
        assertTrue(busy.getMessage().contains("CRIU stops it"), busy.getMessage());
      } finally {
        lock.release();
      }
      assertReason(
          FixAndRetryException.class,
          FixAndRetryException.Reason.PROCESS_STOPPED,
          () -> process.requireReachable("test"));
    } finally {
      Signal.send("CONT", counter.pid());
    }
  }
}
