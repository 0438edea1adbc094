package dev.gpuprocess;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.gpuprocess.contract.FrozenGroup;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.NotCudaProcessException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.error.ProcessUnfitException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.fixtures.Workload;
import dev.gpuprocess.internal.call.BoundedCall;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.proc.Standstill;
import dev.gpuprocess.report.Diagnosis;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** What is seen before a driver call that would hang, and what becomes of an undo that fails. */
@SimulatedGpu
@Tag("slow")
record UnreachableTest(SimulatedDriver machine, GpuCheckpoints checkpoints, Counter counter) {

  private void assertRefusedUntilThawed(Optional<FrozenGroup> frozen) throws IOException {
    assumeTrue(frozen.isPresent(), "this version of control groups cannot be used here");
    try (FrozenGroup group = frozen.get()) {
      await().atMost(20, SECONDS).until(() -> ProcFs.isFrozen(counter.pid()));
      FixAndRetryException refused =
          assertReason(
              FixAndRetryException.class,
              FixAndRetryException.Reason.PROCESS_STOPPED,
              () -> checkpoints.process(counter.pid()));
      assertTrue(refused.getMessage().contains("frozen"), refused.getMessage());
      group.thaw();
      await().atMost(20, SECONDS).until(() -> !ProcFs.isFrozen(counter.pid()));
      checkpoints.process(counter.pid()).suspend().resume();
      assertEquals(101, counter.increment());
    }
  }

  @Test
  @OutsideUse("A8")
  void verb_groupOfVersion1IsFrozen_refusedBeforeTheCall() throws IOException {
    assertRefusedUntilThawed(FrozenGroup.first(counter.pid()));
  }

  @Test
  @OutsideUse("A8")
  void verb_groupOfVersion2IsFrozen_refusedBeforeTheCall() throws IOException {
    assertRefusedUntilThawed(FrozenGroup.second(counter.pid()));
  }

  @Test
  @OutsideUse("A8")
  void verb_groupAboveIsFrozen_refusedBeforeTheCall() throws IOException {
    assertRefusedUntilThawed(FrozenGroup.above(counter.pid()));
  }

  @Test
  @OutsideUse("A8")
  void verb_groupOfOneThreadIsFrozen_refusedBeforeTheCall() throws IOException {
    assertRefusedUntilThawed(FrozenGroup.thread(counter.pid(), otherThread()));
  }

  private int otherThread() {
    return ProcFs.threads(counter.pid()).stream()
        .filter(thread -> thread != counter.pid())
        .findFirst()
        .orElseThrow();
  }

  @Test
  @OutsideUse("D2")
  void verb_tracerHoldsOneThread_refusedBeforeTheCall() {
    RunningProcess running = checkpoints.process(counter.pid());
    try (Workload tracer = Workload.idle()) {
      assertEquals("1", tracer.ask("halt " + otherThread()));
      assertFalse(ProcFs.stat(counter.pid()).orElseThrow().isStopped(), "the process seems to run");
      FixAndRetryException refused =
          assertReason(
              FixAndRetryException.class,
              FixAndRetryException.Reason.PROCESS_STOPPED,
              () -> running.lock());
      assertTrue(refused.getMessage().contains("by process " + tracer.pid()), refused.getMessage());
      Diagnosis diagnosis = checkpoints.doctor(counter.pid());
      assertTrue(diagnosis.toString().contains("by process " + tracer.pid()), diagnosis::toString);
    }
    await().atMost(20, SECONDS).until(() -> Standstill.of((int) counter.pid()).isEmpty());
    running.suspend().resume();
    assertEquals(101, counter.increment());
  }

  @Test
  @OutsideUse("D2")
  void close_callsAboutTheProcessHang_bringsItBackAllTheSame() {
    CheckpointedProcess suspended = checkpoints.process(counter.pid()).suspend();
    ProcessIdentity identity = ProcessIdentity.of(counter.pid()).orElseThrow();
    CountDownLatch end = new CountDownLatch(1);
    for (int i = 0; i < BoundedCall.MAX_ABANDONED_ABOUT_ONE; i++) {
      assertThrows(TimeoutException.class, () -> hang(identity, end));
    }
    assertThrows(OperationInProgressException.class, () -> checkpoints.inspect(counter.pid()));
    suspended.close();
    assertEquals(101, counter.increment());
    end.countDown();
    await().atMost(20, SECONDS).until(() -> GpuCheckpoints.abandonedCalls() == 0);
    checkpoints.process(counter.pid()).lock().unlock();
  }

  private static void hang(ProcessIdentity about, CountDownLatch end) throws TimeoutException {
    BoundedCall.run(
        about, "hang", Duration.ofMillis(1), () -> awaitUninterrupted(end), (done, failure) -> {});
  }

  private static boolean awaitUninterrupted(CountDownLatch end) {
    try {
      return end.await(60, SECONDS);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  @Test
  void inspect_zombie_refusedNamingItsParent() throws IOException {
    // Not a shell, which may collect its child.
    Process parent = new ProcessBuilder("perl", "-e", "fork or exit; sleep 60").start();
    try {
      await().atMost(20, SECONDS).until(() -> zombieOf(parent).isPresent());
      int zombie = zombieOf(parent).orElseThrow();
      NoSuchProcessException refused =
          assertThrows(NoSuchProcessException.class, () -> checkpoints.inspect(zombie));
      assertTrue(refused.getMessage().contains("its parent " + parent.pid()), refused.getMessage());
    } finally {
      parent.destroyForcibly();
    }
  }

  private static Optional<Integer> zombieOf(Process parent) {
    return ProcFs.descendants(parent.pid()).stream()
        .filter(pid -> ProcFs.stat(pid).map(ProcStat::isDead).orElse(false))
        .findFirst();
  }

  @Test
  void suspend_undoFailsToo_bothAreToldAndInspectFindsIt() {
    machine.faults(
        Fault.in("cuCheckpointProcessCheckpoint").answers(801),
        Fault.in("cuCheckpointProcessUnlock").answers(999));
    RunningProcess running = checkpoints.process(counter.pid());
    RuntimeException failed = assertThrows(RuntimeException.class, running::suspend);
    assertEquals(
        List.of(ProcessUnfitException.Reason.DRIVER_ERROR),
        List.of(failed.getSuppressed()).stream()
            .map(each -> ((ProcessUnfitException) each).reason())
            .toList());
    machine.clearFaults();
    ((LockedProcess) checkpoints.inspect(counter.pid())).unlock();
    assertEquals(101, counter.increment());
  }

  @Test
  void inspect_processDiesWhileItIsRead_thereIsNone() {
    machine.faults(Fault.in("cuCheckpointProcessGetState").pid(counter.pid()).during().kills());
    assertThrows(NoSuchProcessException.class, () -> checkpoints.inspect(counter.pid()));
  }

  /** Every job of this machine is below it. */
  @Test
  void inspect_processOne_refused() {
    assumeTrue(
        ProcFs.ownAncestry().stream().anyMatch(each -> each.pid() == 1),
        "process 1 is not an ancestor of this JVM");
    GpuCheckpointException refused =
        assertThrows(NotCudaProcessException.class, () -> checkpoints.inspect(1));
    assertTrue(String.valueOf(refused.getMessage()).contains("name the root of the job"));
    assertThrows(NotCudaProcessException.class, () -> checkpoints.process(1).lock());
  }
}
