package dev.gpuprocess.survival;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.PoisonedProcessException;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.TmpFs;
import dev.gpuprocess.criu.RealCriu;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.DiskFullException;
import dev.gpuprocess.error.Fate;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.Timeouts;
import dev.gpuprocess.progress.SnapshotTimes;
import dev.gpuprocess.progress.Step;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The process runs again while its image goes to the disk, and nothing of that harms it. */
@RequiresRoot("mounts, and traces the process")
class SnapshotPauseTest {

  /** {@code CUDA_ERROR_OUT_OF_MEMORY}. */
  private static final int OUT_OF_MEMORY = 2;

  private static final int MEBIBYTES = 24;
  private static final DumpOptions HAND_OVER = DumpOptions.builder().handOver(true).build();

  @TempDir Path directory;
  private SpooledMachine place;
  private Pattern job;

  @BeforeEach
  void start() throws IOException {
    RealCriu.assume();
    place = SpooledMachine.in(directory, "size=200m");
    job = Pattern.launch(MEBIBYTES).on(place.machine.driver).notOurChild().start();
  }

  @AfterEach
  void end() {
    if (job != null) {
      job.close();
    }
    if (place != null) {
      place.close();
    }
  }

  private GpuCheckpoints checkpoints() {
    return place.checkpoints();
  }

  private void assertRight() {
    assertEquals("ok " + ((long) MEBIBYTES << 20) + " bytes", job.verify());
  }

  private static List<String> steps(ProcessImage image) {
    return image.steps().stream().map(Step::name).toList();
  }

  private static String note(ProcessImage image) {
    return image.steps().stream()
        .filter(step -> step.name().equals("hand over"))
        .map(Step::note)
        .findFirst()
        .orElseThrow();
  }

  private void assertComesBack(ProcessImage image) {
    job.kill();
    assertTrue(job.awaitExit(Duration.ofSeconds(30)), "its pid is free");
    checkpoints().open(image.directory()).restore().resume();
    assertRight();
  }

  private static void assertRunsOn(GpuCheckpointException e) {
    assertEquals(ProcessState.RUNNING, e.failure().after());
    assertEquals(Fate.RUNNING_AGAIN, e.failure().fate());
    assertTrue(e.getMessage().contains("runs on, and there is no new image"), e.getMessage());
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void theProcessRunsWhileTheDiskHangs(boolean handOver) throws Exception {
    AtomicBoolean hangs = new AtomicBoolean();
    GpuCheckpoints hanging =
        place.at(
            handOver ? "write" : "seal",
            () -> {
              place.disk.hang();
              hangs.set(true);
            });
    DumpOptions options = DumpOptions.builder().handOver(handOver).build();
    CompletableFuture<ProcessImage> snapshot =
        CompletableFuture.supplyAsync(
            () -> hanging.process(job.pid()).snapshot(place.image(), options));
    await().atMost(60, SECONDS).until(() -> snapshot.isDone() || hangs.get());
    job.touch(2);
    assertRight();
    checkpoints().process(job.pid()).suspend().resume();
    assertRight();
    assertFalse(snapshot.isDone());
    assertEquals(List.of(), checkpoints().recover(), "nothing is to be mended");
    place.disk.goOn();

    ProcessImage made = snapshot.get(60, SECONDS);
    made.verify();
    SnapshotTimes times = made.snapshotTimes().orElseThrow();
    assertTrue(times.pause().compareTo(times.whole()) < 0, times.toString());
    assertTrue(steps(made).indexOf("unlock") < steps(made).indexOf("seal"), steps(made).toString());
    if (handOver) {
      assertEquals("by way of " + place.memory.point(), note(made));
    }
    place.assertNothingIsLeft("image", "lost+found");
    assertComesBack(made);
  }

  @Test
  void aDiskThatFillsUpMeanwhileCostsTheImageAlone() throws IOException {
    ProcessImage older =
        checkpoints().process(job.pid()).snapshot(place.disk.path().resolve("older"), HAND_OVER);
    DiskFullException e =
        assertThrows(
            DiskFullException.class,
            () ->
                place
                    .at("write", place::fillDisk)
                    .process(job.pid())
                    .snapshot(place.image(), HAND_OVER));
    assertRunsOn(e);
    assertRight();
    older.verify();
    place.assertNothingIsLeft("filler", "lost+found", "older");
  }

  @Test
  void cancelledMeanwhileItCostsTheImageAlone() {
    Cancellation cancellation = new Cancellation();
    OperationCancelledException e =
        assertThrows(
            OperationCancelledException.class,
            () ->
                place
                    .at("write", cancellation::cancel)
                    .process(job.pid())
                    .snapshot(
                        place.image(), HAND_OVER.toBuilder().cancellation(cancellation).build()));
    assertRunsOn(e);
    assertRight();
    place.assertNothingIsLeft("lost+found");
  }

  @Test
  void aDiskThatHangsForTooLongCostsTheImageAlone() {
    GpuCheckpoints hanging =
        place.at("write", place.disk::hang).toBuilder()
            .timeouts(Timeouts.builder().call(Duration.ofSeconds(1)).build())
            .build();
    DumpOptions options = HAND_OVER.toBuilder().deadline(Duration.ofSeconds(3)).build();
    OperationTimedOutException e =
        assertThrows(
            OperationTimedOutException.class,
            () -> hanging.process(job.pid()).snapshot(place.image(), options));
    assertRunsOn(e);
    assertRight();
    place.disk.goOn();
    await().atMost(20, SECONDS).until(() -> GpuCheckpoints.abandonedCalls() == 0);
    place.assertNothingIsLeft("lost+found");
  }

  /** It may be all that is left of it. */
  @Test
  void aProcessThatTheDriverLosesHasItsImage() {
    Fault lost = Fault.in("cuCheckpointProcessRestore").answers(OUT_OF_MEMORY);
    GpuCheckpoints losing = place.at("restore", () -> place.machine.driver.faults(lost));
    assertThrows(
        PoisonedProcessException.class,
        () -> losing.process(job.pid()).snapshot(place.image(), HAND_OVER));
    place.machine.driver.clearFaults();
    assertEquals(List.of(), SimulatedMachine.names(place.memory.point()));
    assertComesBack(checkpoints().open(place.image()));
  }

  @Test
  void withoutRoomInMemoryItGoesToTheDiskAtOnceAndTheStepSaysWhy() throws IOException {
    try (TmpFs small = TmpFs.mount(Files.createDirectory(directory.resolve("small")), "size=8m")) {
      ProcessImage direct =
          place.checkpoints(small).process(job.pid()).snapshot(place.image(), HAND_OVER);
      String why = note(direct);
      assertTrue(why.startsWith("not by way of memory: " + small.point() + " has 8 MiB"), why);
      assertFalse(steps(direct).contains("write"));
      assertRight();
      assertComesBack(direct);
      place.assertNothingIsLeft("image", "lost+found");
      assertEquals(List.of(), SimulatedMachine.names(small.point()));
    }
  }

  @Test
  void withoutASpoolItGoesToTheDiskAtOnce() {
    ProcessImage image =
        checkpoints().toBuilder()
            .snapshotSpool(null)
            .build()
            .process(job.pid())
            .snapshot(place.image(), HAND_OVER);
    assertEquals("", note(image));
    assertFalse(steps(image).contains("write"));
    assertRight();
    image.verify();
  }

  @Test
  void anImageInMemoryNeedsNoSpool() throws IOException {
    ProcessImage image =
        checkpoints().process(job.pid()).snapshot(place.memory.point().resolve("image"), HAND_OVER);
    assertEquals("", note(image));
    assertFalse(steps(image).contains("write"));
    assertComesBack(image);
  }
}
