package dev.gpuprocess;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static dev.gpuprocess.cuda.ProcessState.CHECKPOINTED;
import static dev.gpuprocess.cuda.ProcessState.LOCKED;
import static dev.gpuprocess.cuda.ProcessState.RUNNING;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertSame;

import dev.gpuprocess.contract.LaunchedTree;
import dev.gpuprocess.error.ProcessUnfitException;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.Job;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.state.GpuUsage;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.internal.state.JournalEntry;
import dev.gpuprocess.internal.state.StateDirectory;
import dev.gpuprocess.options.ResumeOptions;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.RecoveryOutcome;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

/** What a recovery makes of a job whose controller died half way. */
@SimulatedGpu(gpus = 2, mebibytes = 2048)
record TreeRecoveryTest(LaunchedTree tree) {

  private static final int MEMBERS = LaunchedTree.MEMBERS;

  private static Set<RecoveryOutcome> outcomes(List<Recovered> recovered) {
    return recovered.stream().map(Recovered::outcome).collect(Collectors.toSet());
  }

  @Test
  void nobodyIsUnlockedBeforeAllAreRestored() {
    Job job = tree.launch(2);
    CheckpointedProcess parked = tree.checkpoints().process(job.pid()).suspend();
    tree.machine().faults(Fault.in("cuCheckpointProcessRestore").pid(job.member(1)).answers(999));
    assertReason(
        ProcessUnfitException.class, ProcessUnfitException.Reason.DRIVER_ERROR, parked::resume);
    tree.machine().clearFaults();
    tree.controllerDies();

    List<Recovered> recovered = tree.checkpoints().recover();
    assertEquals(MEMBERS, recovered.size());
    assertEquals(Set.of(RecoveryOutcome.SUSPENDED), outcomes(recovered));
    assertEquals(List.of(LOCKED, CHECKPOINTED, LOCKED), tree.states(job, MEMBERS));
    CheckpointedProcess left = recovered.get(0).suspended();
    assertNotNull(left);
    for (Recovered each : recovered) {
      assertSame(left, each.suspended());
    }
    left.resume();
    assertEquals(List.of(RUNNING, RUNNING, RUNNING), tree.states(job, MEMBERS));
    LaunchedTree.assertGoesOn(job, MEMBERS);
    assertEquals(List.of(), tree.checkpoints().recover());
  }

  @Test
  void jobThatWasOnlyLockedIsUnlocked() {
    Job job = tree.launch(0);
    LockedProcess locked = tree.checkpoints().process(job.pid()).lock();
    assertEquals(MEMBERS, locked.members().size());
    tree.controllerDies();
    List<Recovered> recovered = tree.checkpoints().recover();
    assertEquals(MEMBERS, recovered.size());
    assertEquals(Set.of(RecoveryOutcome.UNLOCKED), outcomes(recovered));
    LaunchedTree.assertGoesOn(job, MEMBERS);
    assertEquals(0, tree.entries());
  }

  @Test
  void membersThatEndedAreToldAsGone() {
    Job job = tree.launch(0);
    CheckpointedProcess parked = tree.checkpoints().process(job.pid()).suspend();
    assertEquals(MEMBERS, parked.members().size());
    job.close();
    tree.controllerDies();
    assertEquals(Set.of(RecoveryOutcome.GONE), outcomes(tree.checkpoints().recover()));
    assertEquals(0, tree.entries());
  }

  /** As its controller left it that died before it could note the members. */
  private void leaveRestoreEntryOf(Job job) {
    Journal journal = new Journal(new StateDirectory(tree.state()));
    journal.entries().forEach(entry -> journal.remove(entry.key()));
    ProcessKey root = ProcessKey.of(ProcessIdentity.of(job.pid()).orElseThrow());
    journal.write(
        JournalEntry.of(
                root,
                Math.toIntExact(job.pid()),
                "criu restore",
                GpuUsage.UNKNOWN,
                tree.directory().resolve("image"),
                tree.directory().resolve("log"))
            .below(root));
    tree.controllerDies();
  }

  @Test
  void restoredMemberThatIsOnceSaidToHaveNoCudaIsNotForgotten() {
    Job job = tree.launch(2);
    CheckpointedProcess parked = tree.checkpoints().process(job.pid()).suspend();
    leaveRestoreEntryOf(job);
    int notInitialized = 3;
    tree.machine()
        .faults(
            Fault.in("cuCheckpointProcessGetState")
                .pid(job.member(1))
                .call(1)
                .answers(notInitialized));
    List<Recovered> recovered = tree.checkpoints().recover();
    assertEquals(MEMBERS, recovered.size(), recovered::toString);
    assertEquals(Set.of(RecoveryOutcome.SUSPENDED), outcomes(recovered));
    // Their GPU usage is recorded in the image, which this test does not make.
    recovered.get(0).suspended().resume(ResumeOptions.builder().needs(Map.of()).build());
    LaunchedTree.assertGoesOn(job, MEMBERS);
    assertNotNull(parked);
  }

  @Test
  void jobOfALiveControllerIsLeftAlone() {
    Job job = tree.launch(0);
    try (CheckpointedProcess parked = tree.checkpoints().process(job.pid()).suspend()) {
      assertEquals(Set.of(RecoveryOutcome.IN_USE), outcomes(tree.checkpoints().recover()));
      assertEquals(CHECKPOINTED, parked.state());
    }
    LaunchedTree.assertGoesOn(job, MEMBERS);
  }
}
