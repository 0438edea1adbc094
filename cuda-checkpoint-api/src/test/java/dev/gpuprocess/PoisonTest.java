package dev.gpuprocess;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.ProcessUnfitException;
import dev.gpuprocess.error.StaleStateException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.internal.engine.TrackedProcess;
import dev.gpuprocess.internal.engine.TrackedTree;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.internal.state.JournalEntry;
import dev.gpuprocess.internal.state.ProcessHistory;
import dev.gpuprocess.internal.state.StateDirectory;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;

/** Which processes are reported as lost, and which are not. */
@OutsideUse("A11")
@SimulatedGpu
record PoisonTest(SimulatedDriver machine, GpuCheckpoints checkpoints, Counter counter) {

  private static final Fault RESTORE = Fault.in("cuCheckpointProcessRestore");

  private PoisonedProcess poisoned() {
    CheckpointedProcess suspended = checkpoints.process(counter.pid()).suspend();
    machine.faults(RESTORE.answers(2));
    PoisonedProcess poisoned =
        assertThrows(PoisonedProcessException.class, suspended::resume).process();
    machine.clearFaults();
    return poisoned;
  }

  @Test
  void operatingSystemOnce_isTriedAgainAndComesBack() {
    CheckpointedProcess suspended = checkpoints.process(counter.pid()).suspend();
    machine.faults(RESTORE.call(1).answers(304));
    suspended.resume();
    assertEquals(101, counter.increment());
  }

  @Test
  void operatingSystemTwice_isAnErrorLikeOthersAndCloseTriesAgain() {
    CheckpointedProcess suspended = checkpoints.process(counter.pid()).suspend();
    machine.faults(RESTORE.answers(304));
    ProcessUnfitException e =
        assertReason(
            ProcessUnfitException.class,
            ProcessUnfitException.Reason.DRIVER_ERROR,
            suspended::resume);
    assertEquals(CudaResult.OPERATING_SYSTEM, e.failure().cudaResult());
    assertEquals(ProcessState.CHECKPOINTED, e.failure().after());
    assertTrue(
        e.getMessage().contains("an earlier restore has run out of GPU memory"), e.getMessage());
    machine.clearFaults();
    suspended.close();
    assertEquals(101, counter.increment());
  }

  /** A controller that was killed after the unlock leaves such an entry. */
  @Test
  void suspendOfOneWithTheEntryOfAnEarlierOne_doesNotTakeItsImage() {
    CheckpointedProcess earlier = checkpoints.process(counter.pid()).suspend();
    Journal journal = new Journal(new StateDirectory(machine.stateDirectory()));
    JournalEntry entry = journal.find(ProcessKey.of(earlier.identity())).orElseThrow();
    Path image = machine.directory().resolve("image");
    earlier.resume();
    journal.write(
        entry.after(new ProcessHistory(Instant.EPOCH, false, image, null, null, Map.of())));
    PoisonedProcess poisoned = poisoned();
    assertEquals(Optional.empty(), poisoned.fallbackImage());
    assertNotEquals(Instant.EPOCH, checkpoints.suspended().get(0).since());
  }

  @Test
  void endOfOneThatCameBackAllTheSame_isRefused() {
    PoisonedProcess poisoned = poisoned();
    ((PoisonedProcess) checkpoints.inspect(counter.pid())).resume();
    assertThrows(StaleStateException.class, poisoned::end);
    assertEquals(101, counter.increment());
    try (LockedProcess locked = checkpoints.process(counter.pid()).lock()) {
      assertEquals(ProcessState.LOCKED, locked.state());
      assertThrows(StaleStateException.class, poisoned::end);
    }
    assertEquals(102, counter.increment());
  }

  @Test
  void endOfOneThatIsLost_endsIt() {
    PoisonedProcess poisoned = poisoned();
    poisoned.end();
    assertTrue(counter.awaitExit(Duration.ofSeconds(30)));
    assertThrows(StaleStateException.class, poisoned::end);
  }

  @Test
  void endOfOneThatHasEnded_isQuiet() {
    PoisonedProcess poisoned = poisoned();
    counter.close();
    poisoned.end();
  }

  @Test
  void endOfAFailedProcess_looksFirst() {
    TrackedProcess target = TrackedProcess.of(checkpoints.context(), counter.pid(), "test");
    FailedProcess healthy =
        new FailedProcess(
            StateHandle.next(
                TrackedTree.of(target.context, target.identity, List.of(target)), List.of()));
    assertThrows(StaleStateException.class, healthy::end);
    assertEquals(101, counter.increment());
    machine.faults(Fault.in("cuCheckpointProcessCheckpoint").during().answers(999));
    RunningProcess running = checkpoints.process(counter.pid());
    assertThrows(RuntimeException.class, running::suspend);
    assertInstanceOf(FailedProcess.class, checkpoints.inspect(counter.pid()));
    ((FailedProcess) checkpoints.inspect(counter.pid())).end();
    assertTrue(counter.awaitExit(Duration.ofSeconds(30)));
  }

  @Test
  void outOfMemoryAndTheStateCannotBeRead_isNotCalledPermanent() {
    CheckpointedProcess suspended = checkpoints.process(counter.pid()).suspend();
    machine.faults(
        RESTORE.answers(2), Fault.in("cuCheckpointProcessGetState").fromCall(2).answers(999));
    RuntimeException e = assertThrows(RuntimeException.class, suspended::restore);
    assertTrue(e.getMessage().contains("not known now"), e.getMessage());
    machine.clearFaults();
    suspended.resume();
    assertEquals(101, counter.increment());
  }
}
