package dev.gpuprocess;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.CountingJob;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.CudaDriverException;
import dev.gpuprocess.error.StaleStateException;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.internal.engine.TrackedProcess;
import dev.gpuprocess.internal.engine.TrackedTree;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** What is called lost for good, and what is not. */
@OutsideUse("A11")
class PoisonTest {

  private static final Fault RESTORE = Fault.in("cuCheckpointProcessRestore");

  @RegisterExtension final CountingJob job = new CountingJob();

  private PoisonedProcess poisoned() {
    CheckpointedProcess suspended = job.checkpoints().process(job.pid()).suspend();
    job.machine().faults(RESTORE.answers(2));
    PoisonedProcess poisoned =
        assertThrows(PoisonedProcessException.class, suspended::resume).process();
    job.machine().clearFaults();
    return poisoned;
  }

  @Test
  void operatingSystemOnce_isTriedAgainAndComesBack() {
    CheckpointedProcess suspended = job.checkpoints().process(job.pid()).suspend();
    job.machine().faults(RESTORE.call(1).answers(304));
    suspended.resume();
    assertEquals(101, job.counter().increment());
  }

  @Test
  void operatingSystemTwice_isAnErrorLikeOthersAndCloseTriesAgain() {
    CheckpointedProcess suspended = job.checkpoints().process(job.pid()).suspend();
    job.machine().faults(RESTORE.answers(304));
    CudaDriverException e = assertThrows(CudaDriverException.class, suspended::resume);
    assertEquals(CudaResult.OPERATING_SYSTEM, e.failure().cudaResult());
    assertEquals(ProcessState.CHECKPOINTED, e.failure().after());
    assertTrue(
        e.getMessage().contains("an earlier restore has run out of GPU memory"), e.getMessage());
    job.machine().clearFaults();
    suspended.close();
    assertEquals(101, job.counter().increment());
  }

  @Test
  void endOfOneThatCameBackAllTheSame_isRefused() {
    PoisonedProcess poisoned = poisoned();
    ((PoisonedProcess) job.checkpoints().inspect(job.pid())).resume();
    assertThrows(StaleStateException.class, poisoned::end);
    assertEquals(101, job.counter().increment());
    try (LockedProcess locked = job.checkpoints().process(job.pid()).lock()) {
      assertEquals(ProcessState.LOCKED, locked.state());
      assertThrows(StaleStateException.class, poisoned::end);
    }
    assertEquals(102, job.counter().increment());
  }

  @Test
  void endOfOneThatIsLost_endsIt() {
    PoisonedProcess poisoned = poisoned();
    poisoned.end();
    assertTrue(job.counter().awaitExit(Duration.ofSeconds(30)));
    assertThrows(StaleStateException.class, poisoned::end);
  }

  @Test
  void endOfOneThatHasEnded_isQuiet() {
    PoisonedProcess poisoned = poisoned();
    job.counter().close();
    poisoned.end();
  }

  @Test
  void endOfAFailedProcess_looksFirst() {
    TrackedProcess target = TrackedProcess.of(job.checkpoints().context(), job.pid(), "test");
    FailedProcess healthy =
        new FailedProcess(
            StateHandle.next(
                TrackedTree.of(target.context, target.identity, List.of(target)), List.of()));
    assertThrows(StaleStateException.class, healthy::end);
    assertEquals(101, job.counter().increment());
    job.machine().faults(Fault.in("cuCheckpointProcessCheckpoint").during().answers(999));
    RunningProcess running = job.checkpoints().process(job.pid());
    assertThrows(RuntimeException.class, running::suspend);
    assertInstanceOf(FailedProcess.class, job.checkpoints().inspect(job.pid()));
    ((FailedProcess) job.checkpoints().inspect(job.pid())).end();
    assertTrue(job.counter().awaitExit(Duration.ofSeconds(30)));
  }

  @Test
  void outOfMemoryAndTheStateCannotBeRead_isNotCalledPermanent() {
    CheckpointedProcess suspended = job.checkpoints().process(job.pid()).suspend();
    job.machine()
        .faults(
            RESTORE.answers(2), Fault.in("cuCheckpointProcessGetState").fromCall(2).answers(999));
    RuntimeException e = assertThrows(RuntimeException.class, suspended::restore);
    assertTrue(e.getMessage().contains("not known now"), e.getMessage());
    job.machine().clearFaults();
    suspended.resume();
    assertEquals(101, job.counter().increment());
  }
}
