package dev.gpuprocess.survival;

import static dev.gpuprocess.contract.AssertReason.assertReason;
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
import dev.gpuprocess.criu.FileTree;
import dev.gpuprocess.criu.RealCriu;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Fate;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.HostMemory;
import dev.gpuprocess.options.Timeouts;
import dev.gpuprocess.report.SnapshotTimes;
import dev.gpuprocess.report.Step;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The process runs again while its image is written to the disk, and is not affected. */
@RequiresRoot("mounts, and traces the process")
class SnapshotPauseTest {

  /** {@code CUDA_ERROR_OUT_OF_MEMORY}. */
  private static final int OUT_OF_MEMORY = 2;

  private static final int MEBIBYTES = 24;
  private static final DumpOptions OPTIONS = DumpOptions.ofDefaults();

  @TempDir Path directory;
  private MachineWithDisk place;
  private Pattern job;

  @BeforeEach
  void start() throws IOException {
    RealCriu.assume();
    place = MachineWithDisk.in(directory, "size=1g");
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
        .filter(step -> step.name().equals("checkpoint"))
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
    assertTrue(e.getMessage().contains("runs, and there is no new image"), e.getMessage());
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void theProcessRunsWhileTheDiskHangs(boolean memoryFiles) throws Exception {
    AtomicBoolean hangs = new AtomicBoolean();
    GpuCheckpoints hanging =
        place.at(
            memoryFiles ? "write" : "seal",
            () -> {
              place.disk.hang();
              hangs.set(true);
            });
    DumpOptions options = DumpOptions.builder().memoryFiles(memoryFiles).build();
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
    assertEquals(memoryFiles ? 1 : 0, made.manifest().memoryFiles().size());
    assertTrue(note(made).endsWith("into prepared memory"), note(made));
    place.assertNothingIsLeft("image", "lost+found");
    assertComesBack(made);
  }

  @Test
  void aDiskThatFillsUpMeanwhileCostsTheImageAlone() throws IOException {
    ProcessImage older =
        checkpoints().process(job.pid()).snapshot(place.disk.path().resolve("older"), OPTIONS);
    ImageException e =
        assertReason(
            ImageException.class,
            ImageException.Reason.DISK_FULL,
            () ->
                place
                    .at("write", place::fillDisk)
                    .process(job.pid())
                    .snapshot(place.image(), OPTIONS));
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
                        place.image(), OPTIONS.toBuilder().cancellation(cancellation).build()));
    assertRunsOn(e);
    assertRight();
    place.assertNothingIsLeft("lost+found");
  }

  @Test
  void aDiskThatHangsForTooLongCostsTheImageAlone() {
    GpuCheckpoints hanging =
        place.at("write", place.disk::hang).toBuilder()
            .timeouts(Timeouts.builder().call(Duration.ofSeconds(10)).build())
            .build();
    DumpOptions options = OPTIONS.toBuilder().deadline(Duration.ofSeconds(25)).build();
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

  /** The image may be all that is left of the process. */
  @Test
  void aProcessThatTheDriverLosesHasItsImage() {
    Fault lost = Fault.in("cuCheckpointProcessRestore").answers(OUT_OF_MEMORY);
    GpuCheckpoints losing = place.at("restore", () -> place.machine.driver.faults(lost));
    PoisonedProcessException lostIt =
        assertThrows(
            PoisonedProcessException.class,
            () -> losing.process(job.pid()).snapshot(place.image(), OPTIONS));
    place.machine.driver.clearFaults();
    assertEquals(Optional.of(place.image()), lostIt.process().fallbackImage());
    assertEquals(1, checkpoints().open(place.image()).manifest().memoryFiles().size());
    assertComesBack(checkpoints().open(place.image()));
    MachineWithDisk.assertNoMemoryIsTaken(place.memory);
  }

  /** CRIU has written its files before the process runs again. */
  private void assertIsDumpedByCriu(ProcessImage image) {
    List<String> steps = new ArrayList<>(steps(image));
    steps.remove("prepare");
    assertEquals(List.of("lock", "checkpoint", "dump", "restore", "unlock", "seal"), steps);
    assertEquals(List.of(), image.manifest().memoryFiles());
    assertRight();
    assertComesBack(image);
    place.assertNothingIsLeft("image", "lost+found");
  }

  @Test
  void withoutRoomInMemoryCriuDumpsItAndTheCheckpointSaysWhy() throws IOException {
    try (TmpFs small = TmpFs.mount(Files.createDirectory(directory.resolve("small")), "size=8m")) {
      ProcessImage image =
          place.checkpoints(small).process(job.pid()).snapshot(place.image(), OPTIONS);
      String why = "as none could be made: " + small.point() + " has 8 MiB of memory left";
      assertTrue(note(image).contains(why), note(image));
      assertIsDumpedByCriu(image);
      MachineWithDisk.assertNoMemoryIsTaken(small);
    }
  }

  @Test
  void withoutHostMemoryCriuDumpsIt() {
    ProcessImage image =
        place.checkpoints(HostMemory.none()).process(job.pid()).snapshot(place.image(), OPTIONS);
    assertTrue(note(image).contains("into memory that the driver mapped"), note(image));
    assertIsDumpedByCriu(image);
  }

  @Test
  void anImageInTheSameMemoryIsMadeTooAndTakesItOnce() throws IOException {
    Path image = place.memory.point().resolve("image");
    ProcessImage made = checkpoints().process(job.pid()).snapshot(image, OPTIONS);
    job.touch(2);
    assertRight();
    made.verify();
    assertEquals(1, Files.getAttribute(image.resolve("gpu/memory-1.bin"), "unix:nlink"));
    await().atMost(20, SECONDS).until(() -> taken() < 2L * (MEBIBYTES << 20));
    assertComesBack(made);
    FileTree.remove(image);
    MachineWithDisk.assertNoMemoryIsTaken(place.memory);
  }

  private long taken() {
    File memory = place.memory.point().toFile();
    return memory.getTotalSpace() - memory.getFreeSpace();
  }
}
