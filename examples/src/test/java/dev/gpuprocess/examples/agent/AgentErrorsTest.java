package dev.gpuprocess.examples.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.mockito.ArgumentMatchers.any;
import static org.mockito.ArgumentMatchers.anyInt;
import static org.mockito.ArgumentMatchers.anyLong;
import static org.mockito.ArgumentMatchers.eq;
import static org.mockito.Mockito.doThrow;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.verify;
import static org.mockito.Mockito.when;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ImageStore;
import dev.gpuprocess.image.PruneReport;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.RetentionPolicy;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The agent when the library, or the machine, throws what it was not written for. */
class AgentErrorsTest {

  private final GpuCheckpoints machine = mock(GpuCheckpoints.class);
  private final AgentMetrics metrics = mock(AgentMetrics.class);
  private final Jobs jobs = mock(Jobs.class);

  @Test
  void imagesOfTheOtherJobsAreRemoved(@TempDir Path images) throws Exception {
    Path bad = Files.createDirectory(images.resolve("a"));
    Path good = Files.createDirectory(images.resolve("b"));
    RetentionPolicy retention = RetentionPolicy.ofDefaults();
    ImageStore store = mock(ImageStore.class);
    when(machine.store(bad)).thenThrow(new AssertionError("of a store"));
    when(machine.store(good)).thenReturn(store);
    when(store.prune(retention)).thenReturn(new PruneReport(List.of(), Map.of()));
    try (CallThreads threads = new CallThreads()) {
      new ImageVolume(machine, jobs, metrics, images, retention, threads).prune();
    }
    verify(store).prune(retention);
    verify(metrics).pruned(anyInt(), anyLong(), anyLong());
  }

  @Test
  void repeatedTaskIsRepeatedAfterAnError() throws Exception {
    ScheduledExecutorService executor =
        Executors.newSingleThreadScheduledExecutor(Threads.daemons("a test"));
    CountDownLatch runs = new CountDownLatch(3);
    Runnable failing =
        Threads.repeatable(
            () -> {
              runs.countDown();
              throw new StackOverflowError("of a task");
            });
    try {
      ScheduledFuture<?> unused =
          executor.scheduleWithFixedDelay(failing, 0, 1, TimeUnit.MILLISECONDS);
      assertEquals(true, runs.await(3, TimeUnit.MINUTES));
    } finally {
      executor.shutdownNow();
    }
  }

  @Test
  void jobOfWhichOneTreeCannotBeSuspendedRunsAgain() {
    CheckpointedProcess first = mock(CheckpointedProcess.class);
    Error error = new OutOfMemoryError("of the second");
    when(machine.suspend(eq(7L), any())).thenReturn(first);
    when(machine.suspend(eq(8L), any())).thenThrow(error);
    try (Operations operations = new Operations();
        CallThreads threads = new CallThreads()) {
      SnapshotAgentService service =
          new SnapshotAgentService(machine, jobs, operations, metrics, threads);
      assertSame(
          error,
          assertThrows(
              Error.class, () -> service.suspend("job", List.of(7L, 8L), new Cancellation())));
    }
    verify(first).resume();
  }

  @Test
  void operationWithoutAThreadIsRefusedAndForgotten() throws Exception {
    ExecutorService none = mock(ExecutorService.class);
    when(none.awaitTermination(anyLong(), any())).thenReturn(true);
    doThrow(new OutOfMemoryError("unable to create native thread")).when(none).execute(any());
    try (Operations operations = new Operations(none)) {
      for (int i = 0; i < 2; i++) {
        StatusRuntimeException refused =
            assertThrows(
                StatusRuntimeException.class, () -> operations.begin("job", () -> by -> 0L));
        assertEquals(Status.Code.RESOURCE_EXHAUSTED, refused.getStatus().getCode());
      }
      assertEquals(false, operations.isBusy("job"));
    }
  }
}
