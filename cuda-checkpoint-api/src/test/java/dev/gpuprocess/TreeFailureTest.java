package dev.gpuprocess;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static dev.gpuprocess.cuda.ProcessState.CHECKPOINTED;
import static dev.gpuprocess.cuda.ProcessState.LOCKED;
import static dev.gpuprocess.cuda.ProcessState.RUNNING;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.LaunchedTree;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.InsufficientGpuMemoryException;
import dev.gpuprocess.error.LockTimeoutException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.error.ProcessUnfitException;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.Job;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.fixtures.Signal;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.internal.call.BoundedCall;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.options.ResumeOptions;
import dev.gpuprocess.options.Timeouts;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.ProcessMember;
import dev.gpuprocess.report.Step;
import dev.gpuprocess.report.StepListener;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The state of a job after a verb failed for some of its members. */
@SimulatedGpu(gpus = 2, mebibytes = 2048)
@Tag("slow")
record TreeFailureTest(LaunchedTree tree) {

  private static final int MEMBERS = LaunchedTree.MEMBERS;
  private static final String STATE = "cuCheckpointProcessGetState";
  private static final String LOCK = "cuCheckpointProcessLock";
  private static final String CHECKPOINT = "cuCheckpointProcessCheckpoint";
  private static final String RESTORE = "cuCheckpointProcessRestore";
  private static final String UNLOCK = "cuCheckpointProcessUnlock";

  private RunningProcess running(Job job) {
    return tree.checkpoints().process(job.pid());
  }

  private void assertStates(Job job, ProcessState... states) {
    assertEquals(List.of(states), tree.states(job, MEMBERS));
  }

  private void assertRuns(Job job) {
    tree.machine().clearFaults();
    assertEquals(Collections.nCopies(MEMBERS, RUNNING), tree.states(job, MEMBERS));
    LaunchedTree.assertGoesOn(job, MEMBERS);
    assertEquals(0, tree.entries(), "a running job leaves no entries");
  }

  /** Stops a member when it has done a step, so that its state cannot be read. */
  private GpuCheckpoints stoppingAfter(String step, int member) {
    StepListener stopping =
        new StepListener() {
          @Override
          public void finished(Step done) {
            if (done.name().equals(step) && done.pid() == member) {
              Signal.send("STOP", member);
              Workload.await(() -> ProcFs.stat(member).orElseThrow().isStopped(), "the stop");
            }
          }
        };
    return tree.checkpoints().toBuilder().listener(stopping).build();
  }

  private static void assertTells(GpuCheckpointException e, String... texts) {
    for (String text : texts) {
      assertTrue(String.valueOf(e.getMessage()).contains(text), e.getMessage());
    }
  }

  @Test
  void lockThatFailsForOneIsUndoneAndTriedAgain() {
    Job job = tree.launch(0);
    RunningProcess running = running(job);
    tree.machine().faults(Fault.in(LOCK).pid(job.member(2)).call(1).answers(600));
    LockedProcess locked = running.lock();
    assertStates(job, LOCKED, LOCKED, LOCKED);
    assertEquals(MEMBERS, tree.entries());
    locked.unlock();
    assertRuns(job);
  }

  @Test
  void eachAttemptToLockIsJournalledBeforeIt() {
    Job job = tree.launch(0);
    RunningProcess running = running(job);
    tree.machine()
        .faults(
            Fault.in(LOCK).pid(job.member(2)).call(1).answers(600),
            Fault.in(LOCK).pid(job.member(1)).call(2).hangs());
    CompletableFuture<LockedProcess> locked =
        CompletableFuture.supplyAsync(() -> running.lock(Duration.ofMinutes(1)));
    Workload.await(
        () ->
            tree.checkpoints().cuda().getState(job.member(0)).value() == LOCKED
                && tree.checkpoints().cuda().getState(job.member(2)).value() == LOCKED,
        "the second attempt");
    // The entries of the first attempt were removed when all members were unlocked.
    assertEquals(MEMBERS, tree.entries());
    tree.machine().clearFaults();
    locked.join().unlock();
    assertRuns(job);
  }

  @Test
  void lockThatNeverSucceedsLeavesAllRunning() {
    Job job = tree.launch(0);
    RunningProcess running = running(job);
    tree.machine().faults(Fault.in(LOCK).pid(job.member(2)).answers(600));
    LockTimeoutException e =
        assertThrows(LockTimeoutException.class, () -> running.lock(Duration.ofSeconds(3)));
    assertTells(e, "failed for 1 of 3 members", job.member(2) + " RUNNING");
    assertEquals(List.of(job.member(2)), e.tree().orElseThrow().failed());
    assertRuns(job);
  }

  @Test
  void busyMemberIsWaitedFor() {
    Job job = tree.launch(0);
    RunningProcess running = running(job);
    job.spin(1, Duration.ofMillis(500));
    running.suspend(Duration.ofSeconds(30)).resume();
    assertRuns(job);
  }

  @Test
  void checkpointThatOneRefusesIsUndoneForAll() {
    Job job = tree.launch(2);
    RunningProcess running = running(job);
    tree.machine().faults(Fault.in(CHECKPOINT).pid(job.member(1)).answers(801));
    ProcessUnfitException e =
        assertReason(
            ProcessUnfitException.class,
            ProcessUnfitException.Reason.UNSUPPORTED_BY_DRIVER,
            running::suspend);
    assertTells(e, "process " + job.member(1), "failed for 1 of 3 members");
    assertRuns(job);

    LockedProcess locked = running(job).lock();
    tree.machine().faults(Fault.in(CHECKPOINT).pid(job.member(0)).answers(999));
    assertReason(
        ProcessUnfitException.class,
        ProcessUnfitException.Reason.UNSUPPORTED_BY_DRIVER,
        locked::checkpoint);
    assertStates(job, LOCKED, LOCKED, LOCKED);
    locked.unlock();
    assertRuns(job);
  }

  @Test
  void resumeThatFailsForOneUnlocksNoneAndCanBeDoneAgain() {
    Job job = tree.launch(2);
    CheckpointedProcess parked = running(job).suspend();
    tree.machine().faults(Fault.in(RESTORE).pid(job.member(1)).answers(999));
    ProcessUnfitException e =
        assertReason(
            ProcessUnfitException.class, ProcessUnfitException.Reason.DRIVER_ERROR, parked::resume);
    assertTells(e, job.member(0) + " LOCKED", job.member(1) + " CHECKPOINTED");
    assertStates(job, LOCKED, CHECKPOINTED, LOCKED);
    tree.machine().clearFaults();
    parked.resume();
    assertRuns(job);
  }

  /** The call of one returns after its deadline, when another one is known to be checkpointed. */
  @Test
  void restoreThatReturnsLateDoesNotUnlockBesideACheckpointedMember() {
    Job job = tree.launch(0);
    Timeouts hasty = Timeouts.builder().transfer(Duration.ofSeconds(8)).build();
    CheckpointedProcess parked =
        tree.checkpoints().toBuilder().timeouts(hasty).build().process(job.pid()).suspend();
    ProcessIdentity late = ProcessIdentity.of(job.member(0)).orElseThrow();
    tree.machine()
        .faults(
            Fault.in(RESTORE).pid(job.member(0)).hangs(),
            Fault.in(RESTORE).pid(job.member(1)).answers(999));
    assertThrows(OperationTimedOutException.class, parked::resume);
    tree.machine().clearFaults();
    Workload.await(() -> !BoundedCall.hangs(late), "the call that hangs");
    assertStates(job, LOCKED, CHECKPOINTED, LOCKED);
    assertEquals(MEMBERS, tree.entries());
    assertEquals(RUNNING, tree.checkpoints().resume(job.pid()).state());
    assertRuns(job);
  }

  @Test
  void noneIsUnlockedWhileTheStateOfACheckpointedOneIsNotKnown() {
    Job job = tree.launch(0);
    int stopped = job.member(0);
    RunningProcess running = stoppingAfter("checkpoint", stopped).process(job.pid());
    tree.machine().faults(Fault.in(CHECKPOINT).pid(job.member(1)).answers(801));
    assertThrows(ProcessUnfitException.class, running::suspend);
    Signal.send("CONT", stopped);
    Workload.await(() -> !ProcFs.stat(stopped).orElseThrow().isStopped(), "its end");
    assertStates(job, CHECKPOINTED, LOCKED, LOCKED);
    assertEquals(MEMBERS, tree.entries());
    assertEquals(RUNNING, tree.checkpoints().resume(job.pid()).state());
    assertRuns(job);
  }

  @Test
  void memberThatWasUnlockedLeavesNoEntryIfItsStateCannotBeReadThen() {
    Job job = tree.launch(0);
    int stopped = job.member(0);
    LockedProcess locked = stoppingAfter("unlock", stopped).process(job.pid()).lock();
    tree.machine().faults(Fault.in(UNLOCK).pid(job.member(1)).answers(999));
    GpuCheckpointException e = assertThrows(GpuCheckpointException.class, locked::unlock);
    assertTells(e, stopped + " in a state that is not known");
    assertEquals(1, tree.entries(), "only of the member that is locked");
    Signal.send("CONT", stopped);
    Workload.await(() -> !ProcFs.stat(stopped).orElseThrow().isStopped(), "its end");
    assertStates(job, RUNNING, LOCKED, RUNNING);
    tree.machine().clearFaults();
    locked.unlock();
    assertRuns(job);
  }

  @Test
  void jobThatEndsWhileItIsLockedIsReportedAsEnded() throws InterruptedException {
    Job job = tree.launch(0);
    CountDownLatch locking = new CountDownLatch(MEMBERS);
    StepListener beginning =
        new StepListener() {
          @Override
          public void started(String name, int pid) {
            if (name.equals("lock")) {
              locking.countDown();
            }
          }
        };
    RunningProcess running =
        tree.checkpoints().toBuilder().listener(beginning).build().process(job.pid());
    List<ProcessIdentity> members = running.members().stream().map(ProcessMember::process).toList();
    tree.machine().faults(Fault.in(LOCK).hangs());
    CompletableFuture<CheckpointedProcess> suspended =
        CompletableFuture.supplyAsync(running::suspend);
    assertTrue(locking.await(60, TimeUnit.SECONDS));
    job.close();
    Workload.await(() -> members.stream().noneMatch(ProcessIdentity::isAlive), "their end");
    tree.machine().clearFaults();
    CompletionException failed = assertThrows(CompletionException.class, suspended::join);
    assertInstanceOf(NoSuchProcessException.class, failed.getCause());
    assertEquals(0, tree.entries());
  }

  @Test
  void errorOfAListenerIsThrownAlsoIfALaterAttemptToLockSucceeds() {
    Job job = tree.launch(0);
    AssertionError error = new AssertionError("seen by the listener");
    StepListener failing =
        new StepListener() {
          @Override
          public void failed(String name, int pid, RuntimeException failure) {
            throw error;
          }
        };
    RunningProcess running =
        tree.checkpoints().toBuilder().listener(failing).build().process(job.pid());
    tree.machine().faults(Fault.in(LOCK).pid(job.member(2)).call(1).answers(600));
    assertSame(error, assertThrows(AssertionError.class, running::lock));
    assertRuns(job);
  }

  @Test
  void allFailuresAreTold() {
    Job job = tree.launch(0);
    CheckpointedProcess parked = running(job).suspend();
    tree.machine()
        .faults(
            Fault.in(RESTORE).pid(job.member(0)).answers(999),
            Fault.in(RESTORE).pid(job.member(2)).answers(999));
    ProcessUnfitException e =
        assertReason(
            ProcessUnfitException.class, ProcessUnfitException.Reason.DRIVER_ERROR, parked::resume);
    assertTells(e, "failed for 2 of 3 members");
    assertEquals(1, e.getSuppressed().length);
    tree.machine().clearFaults();
    parked.resume();
    assertRuns(job);
  }

  @Test
  void unlockThatFailsForOneLetsTheOthersGoOnAndCanBeDoneAgain() {
    Job job = tree.launch(0);
    CheckpointedProcess parked = running(job).suspend();
    tree.machine().faults(Fault.in(UNLOCK).pid(job.member(1)).answers(999));
    assertReason(
        ProcessUnfitException.class, ProcessUnfitException.Reason.DRIVER_ERROR, parked::resume);
    assertStates(job, RUNNING, LOCKED, RUNNING);
    tree.machine().clearFaults();
    parked.resume();
    assertRuns(job);
  }

  @Test
  void allThatWerePoisonedAreNamed() {
    Job job = tree.launch(0);
    CheckpointedProcess parked = running(job).suspend();
    tree.machine()
        .faults(
            Fault.in(RESTORE).pid(job.member(0)).answers(2),
            Fault.in(RESTORE).pid(job.member(1)).answers(2));
    PoisonedProcessException e = assertThrows(PoisonedProcessException.class, parked::resume);
    assertEquals(
        List.of(job.member(0), job.member(1)),
        e.process().poisoned().stream().map(ProcessIdentity::pid).toList());
    assertTells(e, job.member(0) + ", " + job.member(1), "end the process");
    assertStates(job, CHECKPOINTED, CHECKPOINTED, LOCKED);
  }

  /** Each job fits alone, but not both. */
  @Test
  void jobsThatFitOnlyOneAfterTheOtherTakeTurns() {
    try (SimulatedDriver small = SimulatedDriver.builder().memory(600L << 20).create();
        Job one = Job.launch(2, 1, 0).on(small).start()) {
      GpuCheckpoints checkpoints = tree.checkpoints().toBuilder().cuda(small.directory()).build();
      CheckpointedProcess first = checkpoints.process(one.pid()).suspend();
      try (Job other = Job.launch(2, 1, 0).on(small).start()) {
        CheckpointedProcess second = checkpoints.process(other.pid()).suspend();
        List<CompletableFuture<CheckpointedProcess>> turns =
            Stream.of(first, second)
                .map(each -> CompletableFuture.supplyAsync(() -> turn(each)))
                .toList();
        turns.forEach(turn -> assertEquals(2, turn.join().members().size()));
      }
    }
  }

  /** Resumes the job when the GPU has memory, and suspends it again. */
  private static CheckpointedProcess turn(CheckpointedProcess parked) {
    RunningProcess running =
        parked.resume(ResumeOptions.builder().waitForMemory(LaunchedTree.patience()).build());
    return running.suspend();
  }

  /** Two members are on the first GPU, which has memory for one; the other GPU is free. */
  @Test
  void roomIsReservedForAllOrForNone() {
    Job job = tree.launch(0);
    CheckpointedProcess parked = running(job).suspend();
    try (Pattern hog = Pattern.launch(1600).on(tree.machine()).start()) {
      assertTrue(hog.isAlive());
      InsufficientGpuMemoryException e =
          assertThrows(InsufficientGpuMemoryException.class, parked::resume);
      assertTells(e, "the tree of processes");
      assertStates(job, CHECKPOINTED, CHECKPOINTED, CHECKPOINTED);
      CompletableFuture<RunningProcess> waiting =
          CompletableFuture.supplyAsync(
              () ->
                  parked.resume(
                      ResumeOptions.builder().waitForMemory(LaunchedTree.patience()).build()));
      // A member that ends during the wait needs no memory.
      job.end(2);
      assertEquals(MEMBERS - 1, waiting.join().members().size());
    }
    LaunchedTree.assertGoesOn(job, MEMBERS - 1);
  }

  /** The member ends after it was found alive: during a call of the driver. */
  @ParameterizedTest
  @ValueSource(strings = {STATE, RESTORE, UNLOCK})
  void memberThatEndsInMidResume_isLeftOut(String function) {
    Job job = tree.launch(0);
    CheckpointedProcess parked = running(job).suspend();
    tree.machine().faults(Fault.in(function).pid(job.member(2)).call(1).during().kills());
    RunningProcess resumed = parked.resume();
    assertFalse(ProcessIdentity.of(job.member(2)).filter(ProcessIdentity::isAlive).isPresent());
    LaunchedTree.assertGoesOn(job, MEMBERS - 1);
    resumed.suspend().resume();
    LaunchedTree.assertGoesOn(job, MEMBERS - 1);
    assertEquals(0, tree.entries(), "a running job leaves no entries");
  }
}
