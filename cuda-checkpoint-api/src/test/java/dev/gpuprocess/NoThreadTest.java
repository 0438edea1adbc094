package dev.gpuprocess;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.mockito.ArgumentMatchers.any;
import static org.mockito.Mockito.CALLS_REAL_METHODS;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.mockStatic;
import static org.mockito.Mockito.when;

import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.internal.call.BoundedCall;
import dev.gpuprocess.internal.engine.TrackedTree;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.internal.time.Threads;
import dev.gpuprocess.internal.time.Uninterrupted;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.options.ResumeOptions;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.mockito.MockedStatic;

/** Verbs on a machine that allows no more threads for a moment. */
class NoThreadTest {

  private final AtomicBoolean fails = new AtomicBoolean();

  /** The next thread that this thread makes cannot be started. */
  private MockedStatic<Threads> noThread() {
    MockedStatic<Threads> threads = mockStatic(Threads.class, CALLS_REAL_METHODS);
    threads
        .when(() -> Threads.daemon(any(), any()))
        .then(call -> fails.getAndSet(false) ? new Unstartable() : call.callRealMethod());
    return threads;
  }

  private static final class Unstartable extends Thread {
    @Override
    public synchronized void start() {
      throw new OutOfMemoryError("unable to create native thread");
    }
  }

  @Test
  @SimulatedGpu(gpus = 1, mebibytes = 2048)
  void exitResumesAllProcesses(GpuCheckpoints checkpoints, Counter one, Counter two)
      throws Exception {
    List<TrackedTree> suspended =
        List.of(
            checkpoints.process(one.pid()).suspend().self.tree(),
            checkpoints.process(two.pid()).suspend().self.tree());
    Method resumeAll =
        Class.forName("dev.gpuprocess.internal.engine.ResumeOnExit")
            .getDeclaredMethod("resumeAll", List.class);
    resumeAll.setAccessible(true);
    CountDownLatch over = new CountDownLatch(1);
    try (MockedStatic<Threads> threads = noThread()) {
      keepIdleThreadsBusy(over);
      fails.set(true);
      resumeAll.invoke(null, suspended);
    } finally {
      over.countDown();
    }
    for (Counter each : List.of(one, two)) {
      assertInstanceOf(RunningProcess.class, checkpoints.inspect(each.pid()));
      assertEquals(101, each.increment());
    }
  }

  /** Occupies the idle threads, which are used before a new thread is made. */
  private void keepIdleThreadsBusy(CountDownLatch over) {
    fails.set(true);
    while (fails.get()) {
      try {
        BoundedCall.THREADS.execute(
            () -> {
              boolean unused =
                  Uninterrupted.until(
                      Deadline.after(Duration.ofMinutes(3)),
                      left -> over.await(left, TimeUnit.NANOSECONDS));
            });
      } catch (OutOfMemoryError noneIsIdle) {
        return;
      }
    }
  }

  /** Without its check, a restored process must not be taken for a good one. */
  @Test
  void restoredProcessThatCannotBeCheckedIsNotReturned() {
    ProcessImage image = mock(ProcessImage.class);
    CheckpointedProcess restored = mock(CheckpointedProcess.class);
    RunningProcess running = mock(RunningProcess.class);
    RestoreOptions options =
        RestoreOptions.builder().verify(process -> true, Duration.ofMinutes(3)).build();
    when(image.restore(options)).thenReturn(restored);
    when(restored.resume(any())).thenReturn(running);
    fails.set(true);
    try (MockedStatic<Threads> threads = noThread()) {
      FixAndRetryException failed =
          assertThrows(
              FixAndRetryException.class,
              () -> new ImageResume(image, options).run(ResumeOptions.ofDefaults()));
      assertEquals(FixAndRetryException.Reason.CHECK_FAILED, failed.reason());
      assertInstanceOf(OutOfMemoryError.class, failed.getCause());
    }
  }
}
