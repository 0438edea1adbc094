package dev.gpuprocess.internal.state;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.LockedProcess;
import dev.gpuprocess.OtherController;
import dev.gpuprocess.Recovered;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.RecoveryOutcome;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** One verb at a time works on a process, over all JVMs of a machine. */
@SimulatedGpu
@Tag("slow")
record ProcessLockTest(SimulatedDriver machine, GpuCheckpoints checkpoints, Counter counter) {

  /** Keeps the other controller in the middle of its lock; calls of this JVM do not hang. */
  private OtherController otherLocks() throws IOException {
    machine.faults(Fault.in("cuCheckpointProcessLock").pid(counter.pid()).call(1).hangs());
    return OtherController.locking(machine, machine.stateDirectory(), counter.pid());
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
    RunningProcess running = checkpoints.process(counter.pid());
    try (OtherController other = otherLocks()) {
      assertRefused(other, running::lock);
      assertInstanceOf(RunningProcess.class, checkpoints.inspect(counter.pid()));
      assertTrue(
          checkpoints.doctor(counter.pid()).toString().contains("pid " + other.pid()),
          () -> checkpoints.doctor(counter.pid()).toString());
    }
  }

  /** A close that relied on such a lock would leave the process checkpointed. */
  @Test
  void refusesToRequestAResumeFromALockThatBringsNoProcessBack() {
    ProcessIdentity process = ProcessIdentity.of(counter.pid()).orElseThrow();
    ProcessKey key = ProcessKey.of(process);
    ProcessLock lock =
        ProcessLock.take(
            key,
            process.pid(),
            "test",
            ProcessLock.Kind.MOVE,
            new StateDirectory(machine.stateDirectory()),
            Duration.ZERO);
    try {
      assertFalse(ProcessLock.requestResume(key, held -> {}));
      lock.willBringBack();
      assertTrue(ProcessLock.requestResume(key, held -> {}));
    } finally {
      lock.release();
    }
  }

  @Test
  void runsAVerbWhileAnotherJvmWorksOnAnotherProcess() throws IOException {
    try (OtherController other = otherLocks();
        Counter neighbour = Counter.start(machine)) {
      checkpoints.process(neighbour.pid()).suspend().resume();
      assertEquals(101, neighbour.increment(), () -> "beside " + other.pid());
    }
  }

  @Test
  void runsAVerbAfterAnotherJvmWasKilledAndLeavesNoFiles() throws IOException {
    otherLocks().close();
    machine.clearFaults();
    assertEquals(
        List.of(RecoveryOutcome.RUNNING),
        checkpoints.recover().stream().map(Recovered::outcome).toList());
    checkpoints.process(counter.pid()).suspend().resume();
    assertEquals(101, counter.increment());
    try (Stream<Path> left = Files.list(machine.stateDirectory())) {
      assertEquals(List.of(machine.stateDirectory().resolve("locks.d")), left.toList());
    }
  }

  @Test
  void doesNotRecoverAProcessOnWhichAnotherJvmWorks() throws IOException {
    try (OtherController other = otherLocks()) {
      assertEquals(
          List.of(RecoveryOutcome.IN_USE),
          checkpoints.recover().stream().map(Recovered::outcome).toList(),
          () -> "beside " + other.pid());
    }
  }

  @Test
  @OutsideUse("A3")
  void otherJvmsReadThatCriuWorksOnTheProcess() throws IOException {
    StateDirectory directory = new StateDirectory(machine.stateDirectory());
    ProcessKey key = ProcessKey.of(ProcessIdentity.of(counter.pid()).orElseThrow());
    ProcessLock turn =
        ProcessLock.take(
            key,
            Math.toIntExact(counter.pid()),
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
    LockedProcess locked = checkpoints.process(counter.pid()).lock();
    for (String name : new StateDirectory(machine.stateDirectory()).lockNames()) {
      Files.delete(machine.stateDirectory().resolve("locks.d").resolve(name));
    }
    Files.delete(machine.stateDirectory().resolve("locks.d"));
    RunningProcess running = locked.unlock();
    try (OtherController other = otherLocks()) {
      assertRefused(other, running::lock);
    }
  }

  @Test
  void refusesVerbsWithoutAStateDirectoryUnlessTheyBringBack() throws IOException {
    LockedProcess locked = checkpoints.process(counter.pid()).lock();
    Files.move(machine.stateDirectory(), machine.directory().resolve("away"));
    Files.createFile(machine.stateDirectory());
    GpuCheckpointException refused = assertThrows(GpuCheckpointException.class, locked::checkpoint);
    assertTrue(refused.getMessage().contains("GPUPROCESS_STATE_DIR"), refused.getMessage());
    assertInstanceOf(LockedProcess.class, checkpoints.inspect(counter.pid()));
    locked.unlock();
    assertEquals(101, counter.increment());
  }
}
