package dev.gpuprocess.survival;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.JobImage;
import dev.gpuprocess.RunningJob;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.TmpFs;
import dev.gpuprocess.criu.RealCriu;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.DiskFullException;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.progress.Step;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The memory of all members goes to the disk when the job runs again, or that of none. */
@RequiresRoot("mounts, and traces the processes")
class JobSnapshotPauseTest {

  /** Of each member; the save area is somewhat larger. */
  private static final int MEBIBYTES = 8;

  /** Room for the memory of one member and half of another. */
  private static final String TOO_SMALL = "size=13m";

  private static final DumpOptions HAND_OVER = DumpOptions.builder().handOver(true).build();

  @TempDir Path directory;
  private SpooledMachine place;
  private JobSubject job;

  @BeforeEach
  void start() throws IOException {
    RealCriu.assume();
    place = SpooledMachine.in(directory, "size=40m");
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

  private JobImage snapshot(GpuCheckpoints checkpoints) {
    return checkpoints.job(job.pid()).snapshot(place.image(), HAND_OVER);
  }

  private static List<String> names(JobImage image) {
    return image.steps().stream().map(Step::name).toList();
  }

  private static List<String> notes(JobImage image) {
    return image.steps().stream()
        .filter(step -> step.name().equals("hand over"))
        .map(Step::note)
        .toList();
  }

  /** Runs the second time that it is called. */
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

  private void assertComesBack(JobImage image) {
    new Snapshotted.OfJob(job).kill();
    RunningJob unused = place.checkpoints().openJob(image.directory()).restore().resume();
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
    CompletableFuture<JobImage> snapshot = CompletableFuture.supplyAsync(() -> snapshot(hanging));
    await().atMost(60, SECONDS).until(() -> snapshot.isDone() || writes.get() > 0);
    assertGoesOn();
    RunningJob unused = place.checkpoints().job(job.pid()).suspend().resume();
    assertGoesOn();
    assertFalse(snapshot.isDone());
    assertEquals(List.of(), place.checkpoints().recover(), "nothing is to be mended");
    place.disk.goOn();

    JobImage made = snapshot.get(60, SECONDS);
    made.verify();
    assertEquals(
        Collections.nCopies(JobSubject.PAIR, "by way of " + place.memory.point()), notes(made));
    assertEquals(JobSubject.PAIR, writes.get());
    assertTrue(
        names(made).lastIndexOf("unlock") < names(made).indexOf("write"), names(made).toString());
    assertEquals(JobSubject.PAIR, made.manifest().memoryFiles().size());
    place.assertNothingIsLeft("image", "lost+found");
    assertComesBack(made);
  }

  @Test
  void withoutRoomForAllItGoesToTheDiskAtOnceAndEachStepSaysWhy() throws IOException {
    try (TmpFs small = TmpFs.mount(Files.createDirectory(directory.resolve("small")), TOO_SMALL)) {
      JobImage direct = snapshot(place.checkpoints(small));
      String why = "not by way of memory: " + small.point() + " has 13 MiB";
      assertEquals(JobSubject.PAIR, notes(direct).size());
      assertTrue(
          notes(direct).stream().allMatch(each -> each.startsWith(why)), notes(direct)::toString);
      assertFalse(names(direct).contains("write"));
      assertGoesOn();
      assertComesBack(direct);
      assertEquals(List.of(), SimulatedMachine.names(small.point()));
      place.assertNothingIsLeft("image", "lost+found");
    }
  }

  @Test
  void memoryThatIsGoneAtTheSecondMemberCostsTheImageAlone() throws IOException {
    Path filler = place.memory.point().resolve("filler");
    GpuCheckpoints filling = place.at("hand over", theSecondTime(() -> fillMemory(filler)));
    assertThrows(DiskFullException.class, () -> snapshot(filling));
    assertEquals(ProcessState.RUNNING, place.checkpoints().inspectJob(job.pid()).state());
    assertGoesOn();
    Files.delete(filler);
    place.assertNothingIsLeft("lost+found");
    JobImage next = snapshot(place.checkpoints());
    assertEquals(
        Collections.nCopies(JobSubject.PAIR, "by way of " + place.memory.point()), notes(next));
  }

  private void fillMemory(Path filler) {
    try {
      int room = Math.toIntExact(place.memory.point().toFile().getUsableSpace());
      Files.write(filler, new byte[room - (1 << 20)]);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Test
  void aDiskThatFillsUpAtTheSecondMemberCostsTheImageAlone() {
    DiskFullException e =
        assertThrows(
            DiskFullException.class,
            () -> snapshot(place.at("write", theSecondTime(place::fillDisk))));
    assertTrue(e.getMessage().contains("runs on, and there is no new image"), e.getMessage());
    assertGoesOn();
    place.assertNothingIsLeft("filler", "lost+found");
  }
}
