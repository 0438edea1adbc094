package dev.gpuprocess;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.CountingJob;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.error.InsufficientGpuMemoryException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.error.StaleStateException;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.options.Timeouts;
import dev.gpuprocess.progress.Step;
import dev.gpuprocess.progress.StepListener;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** One process, and several who are at it: threads, lines of objects, JVMs. */
class SharedProcessTest {

  private static final Duration HASTE = Duration.ofMillis(300);

  @RegisterExtension final CountingJob job = new CountingJob();

  private void assertRuns() {
    assertInstanceOf(RunningProcess.class, job.checkpoints().inspect(job.pid()));
    assertEquals(101, job.counter().increment());
  }

  @Test
  @OutsideUse("A2")
  void object_otherJvmResumedAndSuspendedMeanwhile_isStaleBeforeAnythingIsDone()
      throws IOException {
    CheckpointedProcess old = job.checkpoints().process(job.pid()).suspend();
    try (RemoteController other = RemoteController.start(job.machine(), job.state())) {
      assertEquals("done", other.say("resume", job.pid()));
      assertEquals("done", other.say("suspend", job.pid()));
      assertThrows(StaleStateException.class, old::restore);
      assertThrows(StaleStateException.class, old::resume);
      assertThrows(StaleStateException.class, old::close);
      assertThrows(StaleStateException.class, () -> old.dump(job.directory().resolve("image")));
      assertInstanceOf(CheckpointedProcess.class, job.checkpoints().inspect(job.pid()));
      assertEquals("done", other.say("resume", job.pid()));
    }
    assertRuns();
  }

  @Test
  @OutsideUse("A2")
  void object_otherLineMovedTheProcessAndBack_isStale() {
    LockedProcess old = job.checkpoints().process(job.pid()).lock();
    ((LockedProcess) job.checkpoints().inspect(job.pid())).unlock();
    LockedProcess theirs = job.checkpoints().process(job.pid()).lock();
    assertThrows(StaleStateException.class, old::checkpoint);
    assertThrows(StaleStateException.class, old::unlock);
    theirs.unlock();
    assertRuns();
  }

  @Test
  @OutsideUse("A2")
  void restore_journalSaysThatMoreIsNeeded_believesTheJournal() throws IOException {
    CheckpointedProcess suspended = job.checkpoints().process(job.pid()).suspend();
    Path entry;
    try (var files = Files.newDirectoryStream(job.state(), "*.process")) {
      entry = files.iterator().next();
    }
    String text = Files.readString(entry);
    Files.writeString(entry, text.replaceAll("(held.*=)\\d+", "$1" + (1L << 50)));
    assertThrows(InsufficientGpuMemoryException.class, suspended::resume);
    Files.writeString(entry, text);
    suspended.resume();
    assertRuns();
  }

  @Test
  @OutsideUse("A3")
  void inspect_polledWithoutPause_isInNobodysWay() {
    AtomicBoolean over = new AtomicBoolean();
    List<RuntimeException> refused = new ArrayList<>();
    CompletableFuture<Integer> poller =
        CompletableFuture.supplyAsync(
            () -> {
              int looks = 0;
              while (!over.get()) {
                job.checkpoints().inspect(job.pid());
                looks++;
              }
              return looks;
            });
    try {
      for (int i = 0; i < 20; i++) {
        try (CheckpointedProcess suspended = job.checkpoints().process(job.pid()).suspend()) {
          assertEquals(job.pid(), suspended.pid());
        } catch (OperationInProgressException e) {
          refused.add(e);
        }
      }
    } finally {
      over.set(true);
    }
    assertEquals(List.of(), refused);
    assertTrue(poller.join() > 0);
    assertRuns();
  }

  @Test
  @OutsideUse("A3")
  void suspend_otherJvmComesBetweenLockAndCheckpoint_isRefused() throws IOException {
    try (RemoteController other = RemoteController.start(job.machine(), job.state())) {
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
      job.checkpoints().toBuilder().listener(between).build().process(job.pid()).suspend().resume();
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
    String told = job.checkpoints().doctor(job.pid()).toString();
    return told.replaceAll("(?s).* (\\w+) is at work on it in this JVM.*", "$1");
  }

  private String tryMove(RemoteController other) {
    try {
      return other.say("take", job.pid());
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }

  @Test
  @OutsideUse("A3")
  void close_anotherIsAtTheProcess_waitsForItsTurn() {
    LockedProcess locked = job.checkpoints().process(job.pid()).lock();
    ProcessKey key = ProcessKey.of(locked.identity());
    ProcessLock other =
        ProcessLock.take(
            key,
            locked.pid(),
            "look",
            ProcessLock.Kind.MOVE,
            job.checkpoints().context().state(),
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
        job.checkpoints().toBuilder()
            .timeouts(
                Timeouts.builder().lock(HASTE).call(HASTE).transfer(Duration.ofMinutes(1)).build())
            .build();
    LockedProcess locked = hasty.process(job.pid()).lock();
    LockedProcess theirs = (LockedProcess) job.checkpoints().inspect(job.pid());
    job.machine().faults(Fault.in("cuCheckpointProcessCheckpoint").hangs());
    CompletableFuture<CheckpointedProcess> going =
        CompletableFuture.supplyAsync(theirs::checkpoint);
    await()
        .atMost(20, SECONDS)
        .until(
            () ->
                ProcessLock.describe(
                        ProcessKey.of(locked.identity()), job.checkpoints().context().state())
                    .isPresent());
    assertThrows(OperationInProgressException.class, locked::close);
    job.machine().clearFaults();
    CheckpointedProcess left = going.join();
    assertRuns();
    assertEquals(RunningProcess.class, left.resume().getClass(), "it runs already");
  }

  @Test
  @OutsideUse("A3")
  void resume_unlockFails_canBeAskedForAgain() {
    CheckpointedProcess suspended = job.checkpoints().process(job.pid()).suspend();
    job.machine().faults(Fault.in("cuCheckpointProcessUnlock").answers(999));
    RuntimeException failed = assertThrows(RuntimeException.class, suspended::resume);
    assertEquals(1, failed.getSuppressed().length, "it was tried twice");
    job.machine().clearFaults();
    suspended.close();
    assertRuns();
  }
}
