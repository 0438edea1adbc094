package dev.gpuprocess.internal.state;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.LockedProcess;
import dev.gpuprocess.OtherController;
import dev.gpuprocess.Recovered;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.contract.CountingJob;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.progress.RecoveryOutcome;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** One verb at a time works on a process, over all JVMs of a machine. */
@Tag("jdk")
class ProcessLockTest {

  @RegisterExtension final CountingJob job = new CountingJob();

  /** Keeps the other controller in the middle of its lock; calls of this JVM do not hang. */
  private OtherController otherLocks() throws IOException {
    job.machine().faults(Fault.in("cuCheckpointProcessLock").pid(job.pid()).call(1).hangs());
    return OtherController.locking(job.machine(), job.state(), job.pid());
  }

  private void assertRefused(OtherController other, Runnable verb) {
    OperationInProgressException refused =
        assertThrows(OperationInProgressException.class, verb::run);
    assertTrue(
        refused.getMessage().contains("the controller with pid " + other.pid()),
        refused.getMessage());
  }

  @Test
  void refusesAVerbWhileAnotherJvmWorksAndNamesIt() throws IOException {
    RunningProcess running = job.checkpoints().process(job.pid());
    try (OtherController other = otherLocks()) {
      assertRefused(other, running::lock);
      assertInstanceOf(RunningProcess.class, job.checkpoints().inspect(job.pid()));
      assertTrue(
          job.checkpoints().doctor(job.pid()).toString().contains("pid " + other.pid()),
          () -> job.checkpoints().doctor(job.pid()).toString());
    }
  }

  /** A close that relied on such a lock would leave the process checkpointed. */
  @Test
  void refusesToRequestAResumeFromALockThatBringsNoProcessBack() {
    ProcessIdentity process = ProcessIdentity.of(job.pid()).orElseThrow();
    ProcessKey key = ProcessKey.of(process);
    ProcessLock lock =
        ProcessLock.take(
            key,
            process.pid(),
            "test",
            ProcessLock.Kind.MOVE,
            new StateDirectory(job.state()),
            Duration.ZERO);
    try {
      assertFalse(ProcessLock.requestResume(key));
      lock.willBringBack();
      assertTrue(ProcessLock.requestResume(key));
    } finally {
      lock.release();
    }
  }

  @Test
  void runsAVerbWhileAnotherJvmWorksOnAnotherProcess() throws IOException {
    try (OtherController other = otherLocks();
        Counter neighbour = Counter.start(job.machine())) {
      job.checkpoints().process(neighbour.pid()).suspend().resume();
      assertEquals(101, neighbour.increment(), () -> "beside " + other.pid());
    }
  }

  @Test
  void runsAVerbAfterAnotherJvmWasKilledAndLeavesNoFiles() throws IOException {
    otherLocks().close();
    job.machine().clearFaults();
    assertEquals(
        List.of(RecoveryOutcome.RUNNING),
        job.checkpoints().recover().stream().map(Recovered::outcome).toList());
    job.checkpoints().process(job.pid()).suspend().resume();
    assertEquals(101, job.counter().increment());
    try (Stream<Path> left = Files.list(job.state())) {
      assertEquals(List.of(job.state().resolve("locks.d")), left.toList());
    }
  }

  @Test
  void doesNotRecoverAProcessOnWhichAnotherJvmWorks() throws IOException {
    try (OtherController other = otherLocks()) {
      assertEquals(
          List.of(RecoveryOutcome.IN_USE),
          job.checkpoints().recover().stream().map(Recovered::outcome).toList(),
          () -> "beside " + other.pid());
    }
  }

  @Test
  @OutsideUse("A3")
  void otherJvmsReadThatCriuWorksOnTheProcess() throws IOException {
    StateDirectory directory = new StateDirectory(job.state());
    ProcessKey key = ProcessKey.of(ProcessIdentity.of(job.pid()).orElseThrow());
    ProcessLock turn =
        ProcessLock.take(
            key,
            Math.toIntExact(job.pid()),
            "snapshot",
            ProcessLock.Kind.MOVE,
            directory,
            Duration.ZERO);
    try {
      String lock = directory.lockNames().get(0);
      Optional<Generation> move = turn.move();
      LockHolder resting = directory.holder(lock).orElseThrow();
      assertEquals(new LockHolder(ProcessKey.self(), "snapshot", resting.since(), false), resting);
      turn.atCriu(true);
      assertEquals(
          new LockHolder(ProcessKey.self(), "snapshot", resting.since(), true),
          directory.holder(lock).orElseThrow());
      assertEquals(move, ProcessLock.lastMove(key, directory));
      turn.atCriu(false);
      assertEquals(resting, directory.holder(lock).orElseThrow());
    } finally {
      turn.release();
    }
  }

  @Test
  void createsALockFileAgainThatWasRemoved() throws IOException {
    LockedProcess locked = job.checkpoints().process(job.pid()).lock();
    for (String name : new StateDirectory(job.state()).lockNames()) {
      Files.delete(job.state().resolve("locks.d").resolve(name));
    }
    Files.delete(job.state().resolve("locks.d"));
    RunningProcess running = locked.unlock();
    try (OtherController other = otherLocks()) {
      assertRefused(other, running::lock);
    }
  }

  @Test
  void refusesVerbsWithoutAStateDirectoryUnlessTheyBringBack() throws IOException {
    LockedProcess locked = job.checkpoints().process(job.pid()).lock();
    Files.move(job.state(), job.directory().resolve("away"));
    Files.createFile(job.state());
    GpuCheckpointException refused = assertThrows(GpuCheckpointException.class, locked::checkpoint);
    assertTrue(refused.getMessage().contains("GPUPROCESS_STATE_DIR"), refused.getMessage());
    assertInstanceOf(LockedProcess.class, job.checkpoints().inspect(job.pid()));
    locked.unlock();
    assertEquals(101, job.counter().increment());
  }
}
