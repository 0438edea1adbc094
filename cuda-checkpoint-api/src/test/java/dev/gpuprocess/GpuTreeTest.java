package dev.gpuprocess;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static dev.gpuprocess.cuda.ProcessState.CHECKPOINTED;
import static dev.gpuprocess.cuda.ProcessState.LOCKED;
import static dev.gpuprocess.cuda.ProcessState.RUNNING;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.Launched;
import dev.gpuprocess.contract.LaunchedTree;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.cuda.Gpu;
import dev.gpuprocess.cuda.GpuMap;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.NotCudaProcessException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.error.RetryLaterException;
import dev.gpuprocess.error.StaleStateException;
import dev.gpuprocess.fixtures.Job;
import dev.gpuprocess.fixtures.Signal;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.internal.state.StateDirectory;
import dev.gpuprocess.options.ResumeOptions;
import dev.gpuprocess.options.Timeouts;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.ProcessMember;
import dev.gpuprocess.report.Step;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The typed states of a process with one member and with several, over the simulated driver. */
@SimulatedGpu(gpus = 2, mebibytes = 2048)
record GpuTreeTest(LaunchedTree tree) {

  private static final int MEMBERS = LaunchedTree.MEMBERS;

  private void assertRuns(Job job, int members) {
    assertEquals(Collections.nCopies(members, RUNNING), tree.states(job, members));
    LaunchedTree.assertGoesOn(job, members);
    assertEquals(0, tree.entries(), "a running job leaves no entries");
  }

  private static Set<Integer> pids(GpuProcess job) {
    return job.members().stream()
        .map(ProcessMember::pid)
        .collect(Collectors.toCollection(TreeSet::new));
  }

  @ParameterizedTest
  @ValueSource(ints = {1, MEMBERS})
  void suspendFreesAllGpusAndResumeBringsAllBack(int members) {
    Launched job = Launched.with(tree, members);
    RunningProcess running = tree.checkpoints().process(job.pid());
    assertEquals(Set.copyOf(job.members()), pids(running));
    assertTrue(running.members().stream().allMatch(each -> each.gpuBytes().size() == 1));
    long freeBefore = freeBytes();
    // Each member is locked once if it answers within the limit of the first attempt.
    CheckpointedProcess parked = running.suspend(Duration.ofMinutes(2));
    job.assertAll(CHECKPOINTED);
    assertTrue(freeBytes() > freeBefore);
    for (Gpu gpu : tree.checkpoints().gpus().gpus().orElseThrow()) {
      assertEquals(List.of(), gpu.users());
    }
    assertTrue(parked.members().stream().allMatch(each -> each.gpuBytes().size() == 1));
    assertEquals(members, tree.entries(), "one entry for each member");
    RunningProcess again = parked.resume();
    List<String> steps = again.steps().stream().map(Step::name).toList();
    for (String step : List.of("lock", "checkpoint", "restore", "unlock")) {
      assertEquals(members, Collections.frequency(steps, step), steps::toString);
    }
    assertEquals(4 * members, steps.size(), steps::toString);
    assertTrue(steps.lastIndexOf("lock") < steps.indexOf("checkpoint"), steps::toString);
    assertTrue(steps.lastIndexOf("restore") < steps.indexOf("unlock"), steps::toString);
    assertTrue(again.steps().get(steps.indexOf("checkpoint")).bytes() > 0);
    job.assertRuns();
  }

  @ParameterizedTest
  @ValueSource(ints = {1, MEMBERS})
  void eachVerbLeadsToTheNextStateAndWrongOrderIsRefused(int members) {
    Launched job = Launched.with(tree, members);
    RunningProcess running = tree.checkpoints().process(job.pid());
    LockedProcess locked = running.lock();
    job.assertAll(LOCKED);
    assertInstanceOf(LockedProcess.class, tree.checkpoints().inspect(job.pid()));
    assertThrows(StaleStateException.class, running::lock);
    assertThrows(StaleStateException.class, running::suspend);
    assertReason(
        FixAndRetryException.class,
        FixAndRetryException.Reason.WRONG_STATE,
        () -> tree.checkpoints().process(job.pid()));
    CheckpointedProcess checkpointed = locked.checkpoint();
    assertEquals(CHECKPOINTED, checkpointed.state());
    assertInstanceOf(CheckpointedProcess.class, tree.checkpoints().inspect(job.pid()));
    assertReason(
        FixAndRetryException.class,
        FixAndRetryException.Reason.WRONG_STATE,
        () -> tree.checkpoints().process(job.pid()));
    LockedProcess restored = checkpointed.restore();
    assertInstanceOf(LockedProcess.class, tree.checkpoints().inspect(job.pid()));
    RunningProcess again = restored.unlock();
    assertThrows(StaleStateException.class, restored::checkpoint);
    assertInstanceOf(RunningProcess.class, tree.checkpoints().inspect(job.pid()));
    again.lock().close();
    job.assertRuns();
  }

  @ParameterizedTest
  @ValueSource(ints = {1, MEMBERS})
  void leavingATryBlockBringsTheProcessBack(int members) {
    Launched job = Launched.with(tree, members);
    assertThrows(
        ArithmeticException.class,
        () -> {
          try (CheckpointedProcess parked = tree.checkpoints().process(job.pid()).suspend()) {
            throw new ArithmeticException(parked.toString());
          }
        });
    job.assertRuns();
    try (LockedProcess locked = tree.checkpoints().process(job.pid()).lock()) {
      assertEquals(LOCKED, locked.state());
    }
    job.assertRuns();
  }

  @ParameterizedTest
  @ValueSource(ints = {1, MEMBERS})
  void stoppedMemberIsNamedBeforeAnythingIsTouched(int members) {
    Launched job = Launched.with(tree, members);
    RunningProcess running = tree.checkpoints().process(job.pid());
    int member = job.members().get(members / 2);
    Signal.send("STOP", member);
    try {
      awaitStop(member);
      FixAndRetryException e =
          assertReason(
              FixAndRetryException.class,
              FixAndRetryException.Reason.PROCESS_STOPPED,
              running::suspend);
      assertTrue(e.getMessage().contains("process " + member), e.getMessage());
      assertReason(
          FixAndRetryException.class, FixAndRetryException.Reason.PROCESS_STOPPED, running::lock);
      assertReason(
          FixAndRetryException.class,
          FixAndRetryException.Reason.PROCESS_STOPPED,
          () -> tree.checkpoints().inspect(job.pid()));
    } finally {
      Signal.send("CONT", member);
    }
    running.lock().close();
    job.assertRuns();
  }

  @Test
  void treeWithoutCudaIsRefused() {
    Job job = tree.launch(0, 0);
    assertThrows(NotCudaProcessException.class, () -> tree.checkpoints().process(job.pid()));
    assertThrows(NoSuchProcessException.class, () -> tree.checkpoints().process(0));
  }

  private long freeBytes() {
    return tree.checkpoints().gpus().gpus().orElseThrow().stream().mapToLong(Gpu::freeBytes).sum();
  }

  private static List<GpuUuid> gpusOf(GpuProcess job) {
    return job.members().stream().map(each -> each.gpuBytes().keySet().iterator().next()).toList();
  }

  @Test
  void membersGoToEachOthersGpusAndBack() {
    Job job = tree.launch(2);
    RunningProcess running = tree.checkpoints().process(job.pid());
    List<GpuUuid> before = gpusOf(running);
    List<GpuUuid> both = before.stream().distinct().toList();
    assertEquals(2, both.size());
    ResumeOptions swapped =
        ResumeOptions.builder().gpus(GpuMap.swap(both.get(0), both.get(1))).build();
    running.suspend().resume(swapped);
    RunningProcess there = tree.checkpoints().process(job.pid());
    assertEquals(
        before.stream().map(gpu -> both.get(1 - both.indexOf(gpu))).toList(), gpusOf(there));
    assertRuns(job, MEMBERS);
    there.suspend().resume(swapped);
    assertEquals(before, gpusOf(tree.checkpoints().process(job.pid())));
    assertRuns(job, MEMBERS);
  }

  @Test
  void memberThatCameMeanwhileIsLockedToo() {
    Job job = tree.launch(0);
    RunningProcess running = tree.checkpoints().process(job.pid());
    int newcomer = job.spawn();
    CheckpointedProcess parked = running.suspend();
    assertTrue(pids(parked).contains(job.member(newcomer)));
    assertEquals(Collections.nCopies(MEMBERS + 1, CHECKPOINTED), tree.states(job, MEMBERS + 1));
    parked.resume();
    assertRuns(job, MEMBERS + 1);
  }

  @Test
  void memberThatEndedIsNoMember() {
    Job job = tree.launch(0);
    CheckpointedProcess parked = tree.checkpoints().process(job.pid()).suspend();
    int ended = job.member(2);
    job.end(2);
    Workload.await(() -> ProcessIdentity.of(ended).isEmpty(), "the member to end");
    RunningProcess again = parked.resume();
    assertEquals(MEMBERS - 1, again.members().size());
    assertRuns(job, MEMBERS - 1);
  }

  @Test
  void memberThatLeftTheTreeIsNotForgotten() {
    Job job = tree.launch(0);
    int below = job.spawnBelow();
    CheckpointedProcess parked = tree.checkpoints().process(job.pid()).suspend();
    job.endBetween();
    Workload.await(
        () ->
            !tree.checkpoints().context().state().path().toString().isEmpty()
                && isReparented(job, below),
        "the member to be reparented");
    assertTrue(pids(parked).contains(job.member(below)));
    // Another controller knows it from the journal.
    GpuProcess found = tree.checkpoints().inspect(job.pid());
    assertTrue(pids(found).contains(job.member(below)));
    parked.resume();
    assertRuns(job, MEMBERS + 1);
  }

  @Test
  void membersOfARootThatEndedAreFound() {
    Job job = tree.launch(0);
    int left = job.member(job.spawnBelow());
    CheckpointedProcess parked = tree.checkpoints().process(job.pid()).suspend();
    job.endBetween();
    job.close();
    Workload.await(() -> parked.members().size() == 1, "the others to die with the root");
    CheckpointedProcess found =
        assertInstanceOf(CheckpointedProcess.class, tree.checkpoints().inspect(job.pid()));
    assertEquals(Set.of(left), pids(found));
    try {
      found.resume();
    } catch (NoSuchProcessException e) {
      // It saw that it is alone, and ended before the driver had answered.
    }
    Workload.await(() -> ProcessHandle.of(left).isEmpty(), "the last one to see that it is alone");
    assertThrows(NoSuchProcessException.class, () -> tree.checkpoints().inspect(job.pid()));
    assertThrows(NoSuchProcessException.class, parked::resume);
    assertEquals(0, tree.entries(), "nothing is left to mend");
  }

  @Test
  void comesBackWithoutAStateDirectory() throws Exception {
    Job job = tree.launch(0);
    CheckpointedProcess parked = tree.checkpoints().process(job.pid()).suspend();
    assertEquals(MEMBERS, parked.members().size());
    Path aside = tree.directory().resolve("aside");
    Files.move(tree.state(), aside);
    Files.createFile(tree.state());
    assertInstanceOf(CheckpointedProcess.class, tree.checkpoints().inspect(job.pid()))
        .resume(ResumeOptions.builder().needs(Map.of()).build());
    assertEquals(Collections.nCopies(MEMBERS, RUNNING), tree.states(job, MEMBERS));
    LaunchedTree.assertGoesOn(job, MEMBERS);
    Files.delete(tree.state());
    Files.move(aside, tree.state());
  }

  /** The inner one's member is one of the outer one's. */
  @Test
  void verbsOnOverlappingJobsNeverWaitInACircle() throws Exception {
    Job job = tree.launch(0);
    int below = job.spawnBelow();
    long inner = ProcessHandle.of(job.member(below)).orElseThrow().parent().orElseThrow().pid();
    List<CompletableFuture<Void>> rounds =
        Stream.of(job.pid(), inner)
            .map(root -> CompletableFuture.runAsync(() -> suspendAndResume(root)))
            .toList();
    for (CompletableFuture<Void> each : rounds) {
      each.get(2 * LaunchedTree.patience().toSeconds(), TimeUnit.SECONDS);
    }
    // A close may have waited in vain for the other one.
    if (tree.checkpoints().inspect(job.pid()) instanceof CheckpointedProcess left) {
      left.resume();
    }
    assertRuns(job, MEMBERS + 1);
    job.end(below);
  }

  private void suspendAndResume(long root) {
    for (int round = 0; round < 5; round++) {
      try (CheckpointedProcess parked = tree.checkpoints().process(root).suspend()) {
        assertEquals(CHECKPOINTED, parked.state());
      } catch (RetryLaterException | FixAndRetryException e) {
        // The other one was first.
        assertTrue(e.failure().pid() > 0, e.getMessage());
      }
    }
  }

  private static boolean isReparented(Job job, int member) {
    return ProcessHandle.of(job.pid())
        .orElseThrow()
        .descendants()
        .noneMatch(each -> each.pid() == job.member(member));
  }

  @Test
  void stoppedLoaderIsNotAsked() {
    Job job = tree.launch(1);
    job.stopLoader();
    awaitStop(job.loader(0));
    tree.checkpoints().process(job.pid()).suspend().resume();
    job.continueLoader();
    assertRuns(job, MEMBERS);
  }

  /** The kernel stops a process when it gets to it, not before the sender of the signal goes on. */
  private static void awaitStop(int pid) {
    Workload.await(() -> ProcFs.stat(pid).orElseThrow().isStopped(), "a stop of " + pid);
  }

  @Test
  void membersInSeveralStatesAreMended() {
    Job job = tree.launch(2);
    LockedProcess locked = tree.checkpoints().process(job.member(0)).lock();
    CheckpointedProcess suspended = tree.checkpoints().process(job.member(1)).suspend();
    GpuProcess found = tree.checkpoints().inspect(job.pid());
    CheckpointedProcess half = assertInstanceOf(CheckpointedProcess.class, found);
    half.resume();
    assertRuns(job, MEMBERS);
    assertThrows(StaleStateException.class, locked::unlock);
    assertThrows(StaleStateException.class, suspended::resume);

    LockedProcess again = tree.checkpoints().process(job.member(2)).lock();
    LockedProcess part =
        assertInstanceOf(LockedProcess.class, tree.checkpoints().inspect(job.pid()));
    FixAndRetryException e =
        assertReason(
            FixAndRetryException.class, FixAndRetryException.Reason.WRONG_STATE, part::checkpoint);
    assertTrue(e.getMessage().contains("half way"), e.getMessage());
    part.unlock();
    assertEquals(LOCKED, again.state());
    assertRuns(job, MEMBERS);
  }

  @Test
  void nobodyIsBroughtBackAloneWhileAnotherVerbWorksOnAMember() {
    Job job = tree.launch(0);
    CheckpointedProcess parked =
        tree.checkpoints().toBuilder()
            .timeouts(Timeouts.builder().call(Duration.ofSeconds(5)).build())
            .build()
            .process(job.pid())
            .suspend();
    ProcessIdentity busy = ProcessIdentity.of(job.member(1)).orElseThrow();
    ProcessLock lock =
        ProcessLock.take(
            ProcessKey.of(busy),
            busy.pid(),
            "test",
            ProcessLock.Kind.MOVE,
            new StateDirectory(tree.state()),
            Duration.ZERO);
    try {
      assertThrows(OperationInProgressException.class, parked::close);
    } finally {
      lock.release();
    }
    assertEquals(Collections.nCopies(MEMBERS, CHECKPOINTED), tree.states(job, MEMBERS));
    parked.close();
    assertRuns(job, MEMBERS);
  }
}
