package dev.gpuprocess;

import static dev.gpuprocess.cuda.ProcessState.LOCKED;
import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.JournalFiles;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.error.InsufficientGpuMemoryException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.error.StaleStateException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.options.Timeouts;
import dev.gpuprocess.report.Step;
import dev.gpuprocess.report.StepListener;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;

/** One process, and several who are at it: threads, lines of objects, JVMs. */
@SimulatedGpu
record SharedProcessTest(SimulatedDriver machine, GpuCheckpoints checkpoints, Counter counter) {

  private static final Duration HASTE = Duration.ofSeconds(6);

  private void assertRuns() {
    assertInstanceOf(RunningProcess.class, checkpoints.inspect(counter.pid()));
    assertEquals(101, counter.increment());
  }

  @Test
  @OutsideUse("A2")
  void object_otherJvmResumedAndSuspendedMeanwhile_isStaleBeforeAnythingIsDone()
      throws IOException {
    CheckpointedProcess old = checkpoints.process(counter.pid()).suspend();
    try (RemoteController other = RemoteController.start(machine, machine.stateDirectory())) {
      assertEquals("done", other.say("resume", counter.pid()));
      assertEquals("done", other.say("suspend", counter.pid()));
      assertThrows(StaleStateException.class, old::restore);
      assertThrows(StaleStateException.class, old::resume);
      assertThrows(StaleStateException.class, old::close);
      assertThrows(StaleStateException.class, () -> old.dump(machine.directory().resolve("image")));
      assertInstanceOf(CheckpointedProcess.class, checkpoints.inspect(counter.pid()));
      assertEquals("done", other.say("resume", counter.pid()));
    }
    assertRuns();
  }

  @Test
  @OutsideUse("A2")
  void object_otherLineMovedTheProcessAndBack_isStale() {
    LockedProcess old = checkpoints.process(counter.pid()).lock();
    ((LockedProcess) checkpoints.inspect(counter.pid())).unlock();
    LockedProcess theirs = checkpoints.process(counter.pid()).lock();
    assertThrows(StaleStateException.class, old::checkpoint);
    assertThrows(StaleStateException.class, old::unlock);
    theirs.unlock();
    assertRuns();
  }

  @Test
  @OutsideUse("A2")
  void restore_journalSaysThatMoreIsNeeded_believesTheJournal() throws IOException {
    CheckpointedProcess suspended = checkpoints.process(counter.pid()).suspend();
    Path entry = JournalFiles.in(machine.stateDirectory()).get(0);
    String text = Files.readString(entry);
    Files.writeString(entry, text.replaceAll("(held.*=)\\d+", "$1" + (1L << 50)));
    assertThrows(InsufficientGpuMemoryException.class, suspended::resume);
    Files.writeString(entry, text);
    suspended.resume();
    assertRuns();
  }

  @Test
  @OutsideUse("A3")
  void inspect_polledWithoutPause_isInNobodysWay() throws InterruptedException {
    AtomicBoolean over = new AtomicBoolean();
    CountDownLatch looked = new CountDownLatch(1);
    List<RuntimeException> refused = new ArrayList<>();
    CompletableFuture<Void> poller =
        CompletableFuture.runAsync(
            () -> {
              while (!over.get()) {
                checkpoints.inspect(counter.pid());
                looked.countDown();
              }
            });
    try {
      assertTrue(looked.await(60, SECONDS));
      for (int i = 0; i < 20; i++) {
        try (CheckpointedProcess suspended = checkpoints.process(counter.pid()).suspend()) {
          assertEquals(counter.pid(), suspended.pid());
        } catch (OperationInProgressException e) {
          refused.add(e);
        }
      }
    } finally {
      over.set(true);
    }
    assertEquals(List.of(), refused);
    poller.join();
    assertRuns();
  }

  @Test
  @OutsideUse("A3")
  void suspend_otherJvmComesBetweenLockAndCheckpoint_isRefused() throws IOException {
    try (RemoteController other = RemoteController.start(machine, machine.stateDirectory())) {
      List<String> answers = new ArrayList<>();
      List<String> verbs = new ArrayList<>();
      StepListener between =
          new StepListener() {
            @Override
            public void finished(Step step) {
              if (!step.name().equals("unlock")) {
                verbs.add(describeTurn());
                answers.add(tryMove(other));
              }
            }
          };
      checkpoints.toBuilder().listener(between).build().process(counter.pid()).suspend().resume();
      assertEquals(
          List.of("suspend", "suspend", "resume"), verbs, "after lock, checkpoint and restore");
      for (String answer : answers) {
        assertTrue(answer.startsWith("OperationInProgressException"), answers.toString());
      }
    }
    assertRuns();
  }

  /** The verb that has the turn, as the doctor says. */
  private String describeTurn() {
    String told = checkpoints.doctor(counter.pid()).toString();
    return told.replaceAll("(?s).* (\\w+) is at work on it in this JVM.*", "$1");
  }

  private String tryMove(RemoteController other) {
    try {
      return other.say("take", counter.pid());
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }

  @Test
  @OutsideUse("A3")
  void close_anotherIsAtTheProcess_waitsForItsTurn() {
    LockedProcess locked = checkpoints.process(counter.pid()).lock();
    ProcessKey key = ProcessKey.of(locked.identity());
    ProcessLock other =
        ProcessLock.take(
            key,
            locked.pid(),
            "look",
            ProcessLock.Kind.MOVE,
            checkpoints.context().state(),
            Duration.ZERO);
    CompletableFuture<Void> closed = CompletableFuture.runAsync(locked::close);
    assertThrows(OperationInProgressException.class, locked::checkpoint);
    other.release();
    closed.join();
    assertRuns();
  }

  @Test
  @OutsideUse("A3")
  void close_anotherVerbOutlastsThePatience_processIsBroughtBackAtItsPlainEnd() {
    GpuCheckpoints hasty =
        checkpoints.toBuilder()
            .timeouts(
                Timeouts.builder().lock(HASTE).call(HASTE).transfer(Duration.ofMinutes(1)).build())
            .build();
    LockedProcess locked = hasty.process(counter.pid()).lock();
    LockedProcess theirs = (LockedProcess) checkpoints.inspect(counter.pid());
    machine.faults(Fault.in("cuCheckpointProcessCheckpoint").hangs());
    CompletableFuture<CheckpointedProcess> going =
        CompletableFuture.supplyAsync(theirs::checkpoint);
    await()
        .atMost(20, SECONDS)
        .until(
            () ->
                ProcessLock.describe(
                        ProcessKey.of(locked.identity()), checkpoints.context().state())
                    .isPresent());
    assertThrows(OperationInProgressException.class, locked::close);
    machine.clearFaults();
    CheckpointedProcess left = going.join();
    assertRuns();
    assertEquals(RunningProcess.class, left.resume().getClass(), "it runs already");
  }

  @Test
  void close_otherObjectResumedTheProcessBeforeItsVerb_isStaleAndUndoesNothing() {
    GpuCheckpoints hasty =
        checkpoints.toBuilder()
            .timeouts(
                Timeouts.builder().lock(HASTE).call(HASTE).transfer(Duration.ofMinutes(1)).build())
            .build();
    assertEquals(counter.pid(), checkpoints.process(counter.pid()).suspend().pid());
    CheckpointedProcess old = (CheckpointedProcess) hasty.inspect(counter.pid());
    RunningProcess theirs = ((CheckpointedProcess) checkpoints.inspect(counter.pid())).resume();
    machine.faults(Fault.in("cuCheckpointProcessCheckpoint").hangs());
    CompletableFuture<CheckpointedProcess> going = CompletableFuture.supplyAsync(theirs::suspend);
    await()
        .atMost(20, SECONDS)
        .until(() -> checkpoints.cuda().getState((int) counter.pid()).value() == LOCKED);
    assertThrows(StaleStateException.class, old::close);
    machine.clearFaults();
    CheckpointedProcess left = going.join();
    assertInstanceOf(CheckpointedProcess.class, checkpoints.inspect(counter.pid()));
    left.resume();
    assertRuns();
  }

  @Test
  @OutsideUse("A3")
  void resume_unlockFails_canBeAskedForAgain() {
    CheckpointedProcess suspended = checkpoints.process(counter.pid()).suspend();
    machine.faults(Fault.in("cuCheckpointProcessUnlock").answers(999));
    RuntimeException failed = assertThrows(RuntimeException.class, suspended::resume);
    assertEquals(1, failed.getSuppressed().length, "it was tried twice");
    machine.clearFaults();
    suspended.close();
    assertRuns();
  }
}
