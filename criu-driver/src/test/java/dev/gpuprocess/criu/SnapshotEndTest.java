package dev.gpuprocess.criu;

import static dev.gpuprocess.criu.Trainer.PATIENCE;
import static dev.gpuprocess.criu.Trainer.awaitMore;
import static dev.gpuprocess.criu.Trainer.count;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ImageStore;
import dev.gpuprocess.LaunchedProcess;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.RepeatedSnapshots;
import dev.gpuprocess.SnapshotPlan;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.image.StoredImage;
import dev.gpuprocess.options.Timeouts;
import dev.gpuprocess.report.Step;
import dev.gpuprocess.report.StepListener;
import dev.gpuprocess.survival.HeldExit;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.OptionalInt;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Repeated snapshots that end while one is being made, as when a job is preempted. */
@RequiresRoot("is the parent of what CRIU restores")
class SnapshotEndTest {

  @TempDir Path directory;
  private Trainer trainer;
  private final Gate gate = new Gate();
  private ImageStore store;
  private LaunchedProcess process;
  private RepeatedSnapshots snapshots;
  private CompletableFuture<ProcessImage> underWay;

  /** Holds a snapshot at the end of a step. */
  private static final class Gate implements StepListener {

    private final CountDownLatch reached = new CountDownLatch(1);
    private final CountDownLatch open = new CountDownLatch(1);
    private volatile String step = "";
    private volatile Runnable atSeal = () -> {};

    @Override
    public void started(String name, int pid) {
      if (name.equals("seal")) {
        atSeal.run();
      }
    }

    @Override
    public void finished(Step finished) {
      if (finished.name().equals(step)) {
        reached.countDown();
        await(open);
      }
    }

    private static void await(CountDownLatch latch) {
      try {
        assertTrue(latch.await(PATIENCE.toSeconds(), TimeUnit.SECONDS));
      } catch (InterruptedException e) {
        throw new IllegalStateException(e);
      }
    }
  }

  @BeforeEach
  void start() {
    RealCriu.assume();
    trainer = new Trainer(directory);
    GpuCheckpoints checkpoints =
        trainer.checkpoints.toBuilder()
            .listener(gate)
            .timeouts(Timeouts.builder().call(Duration.ofSeconds(10)).build())
            .build();
    store = checkpoints.store(directory.resolve("images"));
    process = checkpoints.launch(trainer.options(file(), 0).build());
    awaitMore(file(), 0);
    snapshots =
        process
            .process()
            .repeatSnapshots(
                SnapshotPlan.into(store).every(Duration.ofDays(1)).patience(PATIENCE).build());
  }

  @AfterEach
  void endAll() {
    gate.open.countDown();
    if (process != null) {
      process.end(Duration.ZERO);
    }
    if (trainer != null) {
      trainer.close();
    }
  }

  private Path file() {
    return directory.resolve("count");
  }

  /** Makes a snapshot, and returns when it is held at the end of a step. */
  private void holdAfter(String step) {
    gate.step = step;
    underWay = CompletableFuture.supplyAsync(snapshots::snapshotNow);
    Gate.await(gate.reached);
  }

  /** Lets the snapshot go on when the snapshots have ended. */
  private void letGo() {
    Awaitility.await().atMost(PATIENCE).until(() -> !snapshots.isActive());
    gate.step = "";
    gate.open.countDown();
  }

  @Test
  void snapshotWhoseProcessIsNotResumedYet_becomesTheDump() {
    holdAfter("dump");
    final int dumped = count(file());
    CompletableFuture<ProcessImage> last = CompletableFuture.supplyAsync(snapshots::dump);
    letGo();
    ProcessImage image = last.join();
    assertEquals(underWay.join().directory(), image.directory());
    assertEquals(
        List.of(image.directory()), store.list().stream().map(StoredImage::directory).toList());
    assertTrue(process.isDumped(), "it has not exited");
    assertFalse(process.identity().isAlive());

    image.resume();
    awaitMore(file(), dumped);
    assertEquals(OptionalInt.of(3), process.end(PATIENCE).orElseThrow().code());
  }

  /** As with much memory, which the kernel needs long to tear down. */
  @Test
  void theProcessExitsSlowly_theImageIsReturned() {
    Path program = HeldExit.program(directory);
    List<HeldExit> held = new CopyOnWriteArrayList<>();
    gate.atSeal = () -> held.add(HeldExit.of(program, process.identity().pid()));
    holdAfter("dump");
    CompletableFuture<ProcessImage> last = CompletableFuture.supplyAsync(snapshots::dump);
    letGo();
    try {
      last.join().verify();
      assertEquals(1, held.size());
      assertTrue(process.identity().isAlive());
    } finally {
      held.forEach(HeldExit::close);
    }
    Awaitility.await().atMost(PATIENCE).until(() -> !process.identity().isAlive());
    assertTrue(process.isDumped());
  }

  @Test
  void snapshotWhoseProcessRunsAgain_isGivenUpForADump() {
    holdAfter("unlock");
    CompletableFuture<ProcessImage> last = CompletableFuture.supplyAsync(snapshots::dump);
    letGo();
    ProcessImage image = last.join();
    assertCancelled();
    assertEquals(
        List.of(image.directory()), store.list().stream().map(StoredImage::directory).toList());
    assertTrue(process.isDumped());
  }

  @Test
  void abandonedSnapshot_leavesARunningProcessAndNoImage() {
    holdAfter("unlock");
    int there = count(file());
    CompletableFuture<Void> abandoned = CompletableFuture.runAsync(snapshots::abandon);
    letGo();
    abandoned.join();
    assertCancelled();
    assertEquals(List.of(), store.list());
    awaitMore(file(), there);
  }

  private void assertCancelled() {
    CompletionException failed = assertThrows(CompletionException.class, underWay::join);
    assertInstanceOf(OperationCancelledException.class, failed.getCause());
  }

  @Test
  void dumpWithoutASnapshotUnderWay_isADump() {
    ProcessImage first = snapshots.snapshotNow();
    ProcessImage last = snapshots.dump();
    assertNotEquals(first.directory(), last.directory());
    assertEquals(last.directory(), snapshots.last().orElseThrow().directory());
    assertTrue(process.isDumped());
    assertThrows(NoSuchProcessException.class, snapshots::snapshotNow);
  }
}
