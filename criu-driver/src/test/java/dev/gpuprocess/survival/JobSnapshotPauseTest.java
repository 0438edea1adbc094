package dev.gpuprocess.survival;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.TmpFs;
import dev.gpuprocess.criu.RealCriu;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.report.Step;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The memory of all members is written to the disk while the tree runs again, or that of none. */
@RequiresRoot("mounts, and traces the processes")
class JobSnapshotPauseTest {

  /** The memory of each member besides its context; the prepared memory is somewhat larger. */
  private static final int MEBIBYTES = 8;

  /** Enough for the memory of one member and half of another. */
  private static final String TOO_SMALL = "size=450m";

  @TempDir Path directory;
  private MachineWithDisk place;
  private JobSubject job;

  @BeforeEach
  void start() throws IOException {
    RealCriu.assume();
    place = MachineWithDisk.in(directory, "size=1500m");
    job = JobSubject.startPair(place.machine.driver, MEBIBYTES);
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

  private ProcessImage snapshot(GpuCheckpoints checkpoints) {
    return checkpoints.process(job.pid()).snapshot(place.image(), DumpOptions.ofDefaults());
  }

  private static List<String> names(ProcessImage image) {
    return image.steps().stream().map(Step::name).toList();
  }

  private static List<String> notes(ProcessImage image) {
    return image.steps().stream()
        .filter(step -> step.name().equals("checkpoint"))
        .map(Step::note)
        .toList();
  }

  /** Runs the action at the second call. */
  private static Runnable theSecondTime(Runnable action) {
    AtomicInteger calls = new AtomicInteger();
    return () -> {
      if (calls.incrementAndGet() == 2) {
        action.run();
      }
    };
  }

  private void assertGoesOn() {
    assertEquals(Optional.empty(), job.fault());
  }

  private void assertComesBack(ProcessImage image) {
    new Snapshotted.OfJob(job).kill();
    RunningProcess unused = place.checkpoints().open(image.directory()).restore().resume();
    assertGoesOn();
  }

  @Test
  void theJobRunsWhileTheDiskHangs() throws Exception {
    AtomicInteger writes = new AtomicInteger();
    GpuCheckpoints hanging =
        place.at(
            "write",
            () -> {
              if (writes.incrementAndGet() == 1) {
                place.disk.hang();
              }
            });
    CompletableFuture<ProcessImage> snapshot =
        CompletableFuture.supplyAsync(() -> snapshot(hanging));
    await().atMost(60, SECONDS).until(() -> snapshot.isDone() || writes.get() > 0);
    assertGoesOn();
    RunningProcess unused = place.checkpoints().process(job.pid()).suspend().resume();
    assertGoesOn();
    assertFalse(snapshot.isDone());
    assertEquals(List.of(), place.checkpoints().recover(), "nothing is to be mended");
    place.disk.goOn();

    ProcessImage made = snapshot.get(60, SECONDS);
    made.verify();
    assertEquals(JobSubject.PAIR, notes(made).size());
    assertTrue(
        notes(made).stream().allMatch(each -> each.endsWith("into prepared memory")),
        notes(made)::toString);
    assertEquals(JobSubject.PAIR, writes.get());
    assertTrue(
        names(made).lastIndexOf("unlock") < names(made).indexOf("write"), names(made).toString());
    assertEquals(JobSubject.PAIR, made.manifest().memoryFiles().size());
    place.assertNothingIsLeft("image", "lost+found");
    assertComesBack(made);
  }

  @Test
  void withoutRoomForAllCriuDumpsAllAndEachCheckpointSaysWhy() throws IOException {
    try (TmpFs small = TmpFs.mount(Files.createDirectory(directory.resolve("small")), TOO_SMALL)) {
      ProcessImage image = snapshot(place.checkpoints(small));
      String why =
          ", as none could be made: " + small.point() + " has 450 MiB of memory left, and ";
      assertEquals(JobSubject.PAIR, notes(image).size());
      assertTrue(
          notes(image).stream()
              .allMatch(each -> each.contains("memory that the driver mapped" + why)),
          notes(image)::toString);
      assertFalse(names(image).contains("write"));
      assertEquals(List.of(), image.manifest().memoryFiles());
      assertGoesOn();
      MachineWithDisk.assertNoMemoryIsTaken(small);
      assertComesBack(image);
      place.assertNothingIsLeft("image", "lost+found");
    }
  }

  @Test
  void memoryThatAnotherTakesMeanwhileIsMissedByAll() throws IOException {
    Path filler = place.memory.point().resolve("filler");
    ProcessImage image = snapshot(place.at("prepare", () -> fillMemory(filler)));
    assertEquals(List.of(), image.manifest().memoryFiles());
    assertGoesOn();
    Files.delete(filler);
    ProcessImage next =
        place.checkpoints().process(job.pid()).snapshot(place.disk.path().resolve("next"));
    assertEquals(JobSubject.PAIR, next.manifest().memoryFiles().size());
    place.assertNothingIsLeft("image", "lost+found", "next");
  }

  /** Leaves memory for one member. */
  private void fillMemory(Path filler) {
    long room = place.memory.point().toFile().getUsableSpace() - (450L << 20);
    try (RandomAccessFile file = new RandomAccessFile(filler.toFile(), "rw")) {
      for (long written = 0; written < room; written += 1 << 20) {
        file.write(new byte[1 << 20]);
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Test
  void aDiskThatFillsUpAtTheSecondMemberCostsTheImageAlone() {
    ImageException e =
        assertReason(
            ImageException.class,
            ImageException.Reason.DISK_FULL,
            () -> snapshot(place.at("write", theSecondTime(place::fillDisk))));
    assertTrue(e.getMessage().contains("runs, and there is no new image"), e.getMessage());
    assertGoesOn();
    place.assertNothingIsLeft("filler", "lost+found");
  }
}
