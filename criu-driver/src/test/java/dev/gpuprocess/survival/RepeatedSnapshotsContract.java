package dev.gpuprocess.survival;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ImageStore;
import dev.gpuprocess.RepeatedSnapshots;
import dev.gpuprocess.SnapshotPlan;
import dev.gpuprocess.criu.FileTree;
import dev.gpuprocess.criu.RealCriu;
import dev.gpuprocess.criu.ToldSnapshots;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.image.StoredImage;
import dev.gpuprocess.options.RetentionPolicy;
import dev.gpuprocess.report.SkippedSnapshot.Reason;
import dev.gpuprocess.survival.Snapshotted.Suspended;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Callable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Repeated snapshots: the process always runs on, and a good image exists. */
abstract class RepeatedSnapshotsContract {

  static final Duration OFTEN = Duration.ofMillis(20);
  static final Duration NEVER = Duration.ofDays(1);
  private static final Duration PATIENCE = Duration.ofSeconds(50);
  private static final int NOT_READY = 600;

  @TempDir Path directory;
  ToldSnapshots told = new ToldSnapshots();
  GpuCheckpoints checkpoints;
  Snapshotted subject;
  SimulatedMachine machine;

  /** Starts the process of the snapshots. */
  abstract Snapshotted start(SimulatedMachine machine);

  @BeforeEach
  void start() {
    RealCriu.assume();
    machine = new SimulatedMachine(directory.resolve("machine"));
    checkpoints = machine.checkpoints();
    subject = start(machine);
  }

  @AfterEach
  void end() {
    if (subject != null) {
      subject.close();
    }
    if (machine != null) {
      machine.close();
    }
  }

  final ImageStore store() {
    return checkpoints.store(machine.images());
  }

  final SnapshotPlan.Builder plan(Duration interval) {
    return SnapshotPlan.into(store())
        .every(interval)
        .retention(RetentionPolicy.builder().keepLast(2).build())
        .listener(told);
  }

  final RepeatedSnapshots begin(SnapshotPlan plan) {
    return subject.begin(checkpoints, plan);
  }

  final void assertNothingIsWrong() {
    assertEquals(List.of(), told.failed);
    assertEquals(List.of(), told.pruneFailed);
    assertEquals(Optional.empty(), subject.fault());
  }

  static List<Path> complete(ImageStore store) {
    return store.list().stream()
        .filter(StoredImage::isComplete)
        .map(StoredImage::directory)
        .toList();
  }

  @Test
  void imagesAreMadeAndTheNewestStay() {
    RepeatedSnapshots snapshots = begin(plan(OFTEN).build());
    told.awaitMade(4);
    assertTrue(snapshots.isActive());
    snapshots.close();
    snapshots.close();
    assertEquals(List.of(true), told.ended);
    assertFalse(snapshots.isActive());
    assertNothingIsWrong();
    List<Path> newestFirst = List.of(made(told.made.size() - 1), made(told.made.size() - 2));
    assertEquals(newestFirst, complete(store()));
    assertEquals(newestFirst, store().list().stream().map(StoredImage::directory).toList());
    assertEquals(made(told.made.size() - 1), snapshots.last().orElseThrow().directory());
    assertTrue(told.made.get(0).snapshotTimes().isPresent());
    assertEquals(
        told.made.size() - 2, told.pruned.stream().mapToInt(each -> each.removed().size()).sum());
    assertThrows(IllegalStateException.class, snapshots::snapshotNow);
    store().verify(store().list().get(0));
    assertEquals(subject.pid(), store().describe(store().list().get(0)).root().pid());
    assertEquals(
        subject.members(), told.made.get(0).manifest().members().size(), "all in each image");
    assertEquals(List.of(), machine.journal());
  }

  private Path made(int number) {
    return told.made.get(number).directory();
  }

  @Test
  void whileItIsSuspendedItIsLeftAloneAndADumpEndsThem() {
    RepeatedSnapshots snapshots = begin(plan(OFTEN).build());
    told.awaitMade(1);
    for (Callable<Suspended> way : subject.waysToSuspend(checkpoints)) {
      Suspended suspended = whenNobodyIsAtWork(way);
      told.awaitSkipped(Reason.SUSPENDED);
      assertEquals(ProcessState.CHECKPOINTED, subject.state(checkpoints));
      suspended.resume().run();
      told.awaitMade(1);
    }
    assertTrue(snapshots.isActive());
    assertNothingIsWrong();

    whenNobodyIsAtWork(() -> subject.suspend(checkpoints))
        .dump()
        .accept(directory.resolve("dumped"));
    told.awaitEnded();
    assertEquals(List.of(false), told.ended);
    assertFalse(snapshots.isActive());
    assertThrows(NoSuchProcessException.class, snapshots::snapshotNow);
    // It may have ended when one had been begun.
    assertTrue(
        told.failed.stream().allMatch(NoSuchProcessException.class::isInstance),
        told.failed::toString);
  }

  /** The short interval between two snapshots. */
  private static <T> T whenNobodyIsAtWork(Callable<T> verb) {
    return await()
        .atMost(PATIENCE)
        .ignoreExceptionsInstanceOf(GpuCheckpointException.class)
        .until(verb, done -> true);
  }

  @Test
  void whatDidNotComeBackIsBroughtBack() {
    try (RepeatedSnapshots snapshots = begin(plan(NEVER).build())) {
      machine.driver.faults(
          Fault.in("cuCheckpointProcessRestore").pid(subject.member()).call(1).answers(NOT_READY));
      assertThrows(RuntimeException.class, snapshots::snapshotNow);
      assertEquals(1, told.failed.size());
      assertEquals(ProcessState.RUNNING, subject.state(checkpoints));
      assertEquals(Optional.empty(), subject.fault());
      snapshots.snapshotNow().verify();
    }
    assertEquals(Optional.empty(), subject.fault());
  }

  @Test
  void theyEndWithItAndItComesBackFromTheNewestThatVerifies() throws IOException {
    RepeatedSnapshots snapshots = begin(plan(OFTEN).build());
    told.awaitMade(3);
    subject.kill();
    told.awaitEnded();
    assertEquals(List.of(false), told.ended);
    assertFalse(snapshots.isActive());
    assertThrows(NoSuchProcessException.class, snapshots::snapshotNow);
    snapshots.close();
    List<Path> newestFirst = complete(store());
    assertTrue(newestFirst.size() >= 2, newestFirst::toString);
    Files.write(
        newestFirst.get(0).resolve("criu/inventory.img"), new byte[1], StandardOpenOption.APPEND);
    List<StoredImage> skipped = new ArrayList<>();

    ImageException damaged =
        assertReason(
            ImageException.class,
            ImageException.Reason.CORRUPT,
            () -> store().verify(store().list().get(0)));
    assertTrue(damaged.getMessage().contains("inventory.img"), damaged.getMessage());
    subject.restoreNewest(store(), skipped::add);
    assertTrue(skipped.get(0).toString().contains("inventory.img"), skipped::toString);
    assertEquals(newestFirst.get(0), skipped.get(0).directory());
    assertEquals(Optional.empty(), subject.fault());
  }

  @Test
  void whatCannotWorkIsSaidAtTheStart() throws IOException {
    Path file = Files.createFile(directory.resolve("file"));
    SnapshotPlan nowhere = SnapshotPlan.into(checkpoints.store(file)).every(NEVER).build();
    assertReason(ImageException.class, ImageException.Reason.DIRECTORY, () -> begin(nowhere));
    Path secret = Files.write(directory.resolve("key"), new byte[32]);
    Files.setPosixFilePermissions(secret, PosixFilePermissions.fromString("rw-------"));
    GpuCheckpoints signing = checkpoints.toBuilder().imageKey(secret).build();
    SnapshotPlan signed = SnapshotPlan.into(signing.store(machine.images())).every(NEVER).build();
    assertThrows(IllegalArgumentException.class, () -> begin(signed));
    assertThrows(
        IllegalArgumentException.class, () -> SnapshotPlan.into(store()).every(Duration.ZERO));
    FileTree.remove(machine.images());
    begin(plan(NEVER).build()).close();
    assertTrue(Files.isDirectory(machine.images()), "it is made");
    assertEquals(Optional.empty(), subject.fault());
    Suspended suspended = subject.suspend(checkpoints);
    assertReason(
        FixAndRetryException.class,
        FixAndRetryException.Reason.WRONG_STATE,
        () -> begin(plan(NEVER).build()));
    suspended.resume().run();
  }
}
