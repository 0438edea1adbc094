package dev.gpuprocess;

import static java.util.concurrent.TimeUnit.NANOSECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.mockito.Mockito.mock;

import dev.gpuprocess.contract.JournalFiles;
import dev.gpuprocess.contract.NativeCalls;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.internal.call.BoundedCall;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.internal.time.Uninterrupted;
import dev.gpuprocess.report.Step;
import dev.gpuprocess.report.StepListener;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The process after a listener of the caller has thrown an error. */
@OutsideUse("A13")
@SimulatedGpu
record ListenerErrorsTest(SimulatedDriver machine, GpuCheckpoints checkpoints, Counter counter) {

  private static final String SUBJECT = "a test";
  private static final Duration LIMIT = Duration.ofSeconds(60);

  /** A listener that throws at a moment of a step; in Kotlin it may throw any exception. */
  private static StepListener failing(String step, String moment, Throwable error) {
    return mock(
        StepListener.class,
        call -> {
          Object first = call.getArgument(0);
          String name = first instanceof Step taken ? taken.name() : first.toString();
          if (name.equals(step) && call.getMethod().getName().equals(moment)) {
            throw error;
          }
          return null;
        });
  }

  private void assertThrown(String step, String moment, Consumer<RunningProcess> verbs) {
    Error error = new AssertionError("seen by the listener");
    StepListener listener = failing(step, moment, error);
    RunningProcess running =
        checkpoints.toBuilder().listener(listener).build().process(counter.pid());
    assertSame(error, assertThrows(Error.class, () -> verbs.accept(running)));
    assertRuns();
  }

  private void assertRuns() {
    assertInstanceOf(RunningProcess.class, checkpoints.inspect(counter.pid()));
    assertEquals(List.of(), JournalFiles.in(machine.stateDirectory()), "nothing is left to mend");
    assertEquals(101, counter.increment());
    checkpoints.process(counter.pid()).suspend().resume();
    assertEquals(0, GpuCheckpoints.abandonedCalls());
  }

  @BeforeEach
  void awaitEarlierTests() {
    NativeCalls.awaitNoneLeftBehind();
  }

  @ParameterizedTest
  @CsvSource({
    "lock, started", "lock, finished", "checkpoint, started", "checkpoint, finished",
    "restore, started", "restore, finished", "unlock, started", "unlock, finished"
  })
  void cycle_listenerThrowsAnError_reachesTheCallerWithTheProcessRunning(
      String step, String moment) {
    assertThrown(step, moment, running -> running.suspend().resume());
  }

  @ParameterizedTest
  @CsvSource({
    "lock, started", "lock, finished", "checkpoint, started", "checkpoint, finished",
    "restore, started", "restore, finished", "unlock, started", "unlock, finished"
  })
  void cycle_listenerThrowsACheckedException_goesOn(String step, String moment) {
    StepListener listener = failing(step, moment, new IOException("seen by the listener"));
    checkpoints.toBuilder().listener(listener).build().process(counter.pid()).suspend().resume();
    assertRuns();
  }

  @ParameterizedTest
  @CsvSource({"lock, finished", "checkpoint, finished", "restore, finished", "unlock, started"})
  void tryBlocks_listenerThrowsAnError_leaveTheProcessRunning(String step, String moment) {
    assertThrown(
        step,
        moment,
        running -> {
          try (LockedProcess locked = running.lock();
              CheckpointedProcess suspended = locked.checkpoint()) {
            suspended.restore().close();
          }
        });
  }

  @Test
  void suspend_itFailsAndTheListenerToo_failureIsThrownWithTheError() {
    Error error = new AssertionError("seen by the listener");
    StepListener listener = failing("checkpoint", "failed", error);
    machine.faults(Fault.in("cuCheckpointProcessCheckpoint").answers(801));
    RunningProcess running =
        checkpoints.toBuilder().listener(listener).build().process(counter.pid());
    RuntimeException failed = assertThrows(RuntimeException.class, running::suspend);
    assertSame(error, failed.getSuppressed()[0]);
    assertEquals(List.of(), JournalFiles.in(machine.stateDirectory()));
    assertEquals(101, counter.increment());
  }

  @Test
  void lateUndo_throws_runsOnceAndIsCountedOnce() {
    AtomicInteger undone = new AtomicInteger();
    CountDownLatch end = new CountDownLatch(1);
    assertThrows(
        TimeoutException.class,
        () ->
            BoundedCall.run(
                SUBJECT,
                "test",
                Duration.ofMillis(1),
                () ->
                    Uninterrupted.until(
                        Deadline.after(LIMIT), left -> end.await(left, NANOSECONDS)),
                (value, failed) -> {
                  undone.incrementAndGet();
                  throw new AssertionError("the undo fails");
                }));
    assertTrue(BoundedCall.hangs(SUBJECT));
    end.countDown();
    await().atMost(LIMIT).until(() -> !BoundedCall.hangs(SUBJECT));
    assertEquals(1, undone.get());
  }
}
