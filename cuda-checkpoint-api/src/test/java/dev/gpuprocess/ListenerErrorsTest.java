package dev.gpuprocess;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.gpuprocess.contract.CountingJob;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.internal.call.BoundedCall;
import dev.gpuprocess.progress.Step;
import dev.gpuprocess.progress.StepListener;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What becomes of the process when what the caller gave us throws more than an exception. */
@OutsideUse("A13")
class ListenerErrorsTest {

  @RegisterExtension final CountingJob job = new CountingJob();

  private static final class Failing implements StepListener {

    private final String step;
    private final String moment;
    private final Error error = new AssertionError("seen by the listener");

    Failing(String step, String moment) {
      this.step = step;
      this.moment = moment;
    }

    @Override
    public void started(String name, int pid) {
      fail(name, "started");
    }

    @Override
    public void finished(Step taken) {
      fail(taken.name(), "finished");
    }

    @Override
    public void failed(String name, int pid, RuntimeException failure) {
      fail(name, "failed");
    }

    private void fail(String name, String now) {
      if (name.equals(step) && now.equals(moment)) {
        throw error;
      }
    }
  }

  private long entries() throws IOException {
    try (Stream<Path> files = Files.list(job.state())) {
      return files.filter(file -> file.toString().endsWith(".process")).count();
    }
  }

  private void assertThrown(Failing listener, Consumer<RunningProcess> verbs) throws IOException {
    RunningProcess running =
        job.checkpoints().toBuilder().listener(listener).build().process(job.pid());
    assertSame(listener.error, assertThrows(Error.class, () -> verbs.accept(running)));
    assertInstanceOf(RunningProcess.class, job.checkpoints().inspect(job.pid()));
    assertEquals(0, entries(), "nothing is left to mend");
    assertEquals(101, job.counter().increment());
    job.checkpoints().process(job.pid()).suspend().resume();
    assertEquals(0, GpuCheckpoints.abandonedCalls());
  }

  @ParameterizedTest
  @CsvSource({
    "lock, started", "lock, finished", "checkpoint, started", "checkpoint, finished",
    "restore, started", "restore, finished", "unlock, started", "unlock, finished"
  })
  void cycle_listenerThrowsAnError_reachesTheCallerWithTheProcessRunning(String step, String moment)
      throws IOException {
    assertThrown(new Failing(step, moment), running -> running.suspend().resume());
  }

  @ParameterizedTest
  @CsvSource({"lock, finished", "checkpoint, finished", "restore, finished", "unlock, started"})
  void tryBlocks_listenerThrowsAnError_leaveTheProcessRunning(String step, String moment)
      throws IOException {
    assertThrown(
        new Failing(step, moment),
        running -> {
          try (LockedProcess locked = running.lock();
              CheckpointedProcess suspended = locked.checkpoint()) {
            suspended.restore().close();
          }
        });
  }

  @Test
  void suspend_itFailsAndTheListenerToo_failureIsThrownWithTheError() throws IOException {
    Failing listener = new Failing("checkpoint", "failed");
    job.machine().faults(Fault.in("cuCheckpointProcessCheckpoint").answers(801));
    RunningProcess running =
        job.checkpoints().toBuilder().listener(listener).build().process(job.pid());
    RuntimeException failed = assertThrows(RuntimeException.class, running::suspend);
    assertSame(listener.error, failed.getSuppressed()[0]);
    assertEquals(0, entries());
    assertEquals(101, job.counter().increment());
  }

  @Test
  void lateUndo_throws_runsOnceAndIsCountedOnce() throws InterruptedException {
    AtomicInteger undone = new AtomicInteger();
    AtomicInteger left = new AtomicInteger(1);
    assertThrows(
        TimeoutException.class,
        () ->
            BoundedCall.run(
                "a test",
                "test",
                Duration.ofMillis(1),
                () -> {
                  await().atMost(20, SECONDS).until(() -> GpuCheckpoints.abandonedCalls() == 1);
                  return left.decrementAndGet();
                },
                (value, failed) -> {
                  undone.incrementAndGet();
                  throw new AssertionError("the undo fails");
                }));
    await().atMost(20, SECONDS).until(() -> GpuCheckpoints.abandonedCalls() != 1);
    assertEquals(0, GpuCheckpoints.abandonedCalls());
    assertEquals(1, undone.get());
  }
}
