package dev.gpuprocess.survival;

import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.ClockedStore;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ImageStore;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.RepeatedSnapshots;
import dev.gpuprocess.SnapshotListener;
import dev.gpuprocess.SnapshotPlan;
import dev.gpuprocess.criu.FileTree;
import dev.gpuprocess.criu.RealCriu;
import dev.gpuprocess.criu.RpcCriuDriver;
import dev.gpuprocess.error.DiskFullException;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageCorruptException;
import dev.gpuprocess.error.ImageDirectoryException;
import dev.gpuprocess.error.ImageMissingException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.image.ImageKey;
import dev.gpuprocess.image.StoredImage;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.options.RetentionPolicy;
import dev.gpuprocess.progress.SkippedSnapshot;
import dev.gpuprocess.progress.SkippedSnapshot.Reason;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Snapshots from time to time: whatever happens the process runs on, and a good image is there. */
class RepeatedSnapshotsTest {

  private static final Duration OFTEN = Duration.ofMillis(20);
  private static final Duration NEVER = Duration.ofDays(1);
  private static final Duration PATIENCE = Duration.ofSeconds(50);
  private static final int SUSPENSIONS = 2;
  private static final long DISK_BYTES = 400L << 20;
  private static final int NOT_READY = 600;

  @TempDir Path directory;
  private final ToldSnapshots told = new ToldSnapshots();
  private SimulatedMachine machine;
  private GpuCheckpoints checkpoints;
  private Subject subject;

  @BeforeEach
  void start() {
    RealCriu.assume();
    machine = new SimulatedMachine(directory.resolve("machine"));
    checkpoints = machine.checkpoints();
    subject = Subject.start(machine.driver);
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

  private ImageStore store() {
    return checkpoints.store(machine.images());
  }

  private SnapshotPlan.Builder plan(Duration interval) {
    return SnapshotPlan.every(interval, store())
        .retention(RetentionPolicy.builder().keepLast(2).build())
        .listener(told);
  }

  private RepeatedSnapshots begin(SnapshotPlan plan) {
    return checkpoints.process(subject.pid()).repeatSnapshots(plan);
  }

  private static List<Path> complete(ImageStore store) {
    return store.list().stream()
        .filter(StoredImage::isComplete)
        .map(StoredImage::directory)
        .toList();
  }

  /** It is killed; its pid is free when this returns. */
  private void kill() {
    Signals.send(subject.identity().orElseThrow(), Signals.KILL);
    await().atMost(PATIENCE).until(() -> Files.notExists(Path.of("/proc/" + subject.pid())));
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
    assertEquals(List.of(), told.failed);
    assertEquals(List.of(), told.pruneFailed);
    assertEquals(Optional.empty(), subject.fault());
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
    assertEquals(List.of(), machine.journal());
  }

  private Path made(int number) {
    return told.made.get(number).directory();
  }

  @Test
  void oneIsMadeAtOnceWhenAsked() {
    try (RepeatedSnapshots snapshots = begin(plan(NEVER).build())) {
      assertEquals(Optional.empty(), snapshots.last());
      ProcessImage image = snapshots.snapshotNow();
      assertEquals(List.of(image), told.made);
      assertEquals(image, snapshots.last().orElseThrow());
      assertEquals(Optional.empty(), subject.fault());
    }
  }

  @Test
  void whatIsDueWhileOneIsBeingMadeIsSkipped() {
    CountDownLatch gate = new CountDownLatch(1);
    GpuCheckpoints slow =
        checkpoints.toBuilder()
            .criu(
                WatchedCriu.of(
                    new RpcCriuDriver(),
                    moment -> {
                      if (moment.equals(WatchedCriu.MAY_KILL)) {
                        awaitUninterruptibly(gate);
                      }
                    },
                    Duration.ofMinutes(1)))
            .build();
    try (RepeatedSnapshots snapshots =
        slow.process(subject.pid()).repeatSnapshots(plan(OFTEN).build())) {
      told.awaitSkipped(Reason.PREVIOUS_RUNNING);
      OperationInProgressException e =
          assertThrows(OperationInProgressException.class, snapshots::snapshotNow);
      assertTrue(e.getMessage().contains("is being made"), e.getMessage());
      assertEquals(List.of(), told.made);
      gate.countDown();
      told.awaitMade(2);
    } finally {
      gate.countDown();
    }
    assertEquals(List.of(), told.failed);
    assertEquals(Optional.empty(), subject.fault());
  }

  private static void awaitUninterruptibly(CountDownLatch gate) {
    try {
      gate.await();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  @Test
  void whileTheProcessIsSuspendedItIsLeftAlone() {
    try (RepeatedSnapshots snapshots = begin(plan(OFTEN).build())) {
      told.awaitMade(1);
      for (int i = 0; i < SUSPENSIONS; i++) {
        CheckpointedProcess suspended = suspend();
        told.awaitSkipped(Reason.SUSPENDED);
        assertInstanceOf(CheckpointedProcess.class, checkpoints.inspect(subject.pid()));
        suspended.resume();
        told.awaitMade(1);
      }
      assertTrue(snapshots.isActive());
    }
    assertEquals(List.of(), told.failed);
    assertEquals(Optional.empty(), subject.fault());
    assertEquals(List.of(true), told.ended);
  }

  /** Between two snapshots, which come often here. */
  private CheckpointedProcess suspend() {
    AtomicReference<CheckpointedProcess> suspended = new AtomicReference<>();
    await()
        .atMost(PATIENCE)
        .ignoreExceptionsInstanceOf(GpuCheckpointException.class)
        .until(
            () -> {
              suspended.set(checkpoints.process(subject.pid()).suspend());
              return true;
            });
    return suspended.get();
  }

  @Test
  void aFullDiskCostsNoMoreThanTheImagesThatDoNotFit() throws IOException {
    try (LoopMount disk = LoopMount.in(directory, DISK_BYTES)) {
      SnapshotListener filling =
          new SnapshotListener() {
            @Override
            public void made(ProcessImage image) {
              if (told.made.isEmpty()) {
                fill(disk);
              }
              told.made(image);
            }

            @Override
            public void failed(Throwable why) {
              told.failed(why);
            }
          };
      SnapshotPlan plan =
          SnapshotPlan.every(OFTEN, checkpoints.store(disk.path().resolve("images")))
              .listener(filling)
              .build();
      try (RepeatedSnapshots snapshots = begin(plan)) {
        assertInstanceOf(DiskFullException.class, told.awaitFailed());
        Files.delete(disk.path().resolve("filler"));
        told.awaitMade(1);
        assertTrue(snapshots.isActive());
      }
      assertEquals(Optional.empty(), subject.fault());
      plan.place().newestThatVerifies().verify();
    }
  }

  private static void fill(LoopMount disk) {
    try {
      disk.fill();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Test
  void aDirectoryThatIsGoneIsNotMadeAgainAndUsedWhenItIsBack() {
    Path away = directory.resolve("away");
    SnapshotListener moving =
        new SnapshotListener() {
          @Override
          public void made(ProcessImage image) {
            if (told.made.isEmpty()) {
              move(machine.images(), away);
            }
            told.made(image);
          }

          @Override
          public void failed(Throwable why) {
            told.failed(why);
          }
        };
    try (RepeatedSnapshots snapshots = begin(plan(OFTEN).listener(moving).build())) {
      assertTrue(saysItIsGone(told.awaitFailed()), told.failed::toString);
      assertTrue(Files.notExists(machine.images()));
      move(away, machine.images());
      told.awaitMade(1);
      assertTrue(snapshots.isActive());
    }
    assertEquals(2, complete(store()).size(), () -> store().list().toString());
    assertEquals(Optional.empty(), subject.fault());
  }

  private static void move(Path from, Path to) {
    try {
      Files.move(from, to);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static boolean saysItIsGone(Throwable why) {
    return why instanceof ImageDirectoryException
        && why.getMessage().contains("does not exist any more");
  }

  @Test
  void aListenerThatFailsInEveryWayEndsNothing() {
    AtomicInteger calls = new AtomicInteger();
    SnapshotListener failing =
        new SnapshotListener() {
          @Override
          public void made(ProcessImage image) {
            told.made(image);
            Thread.currentThread().interrupt();
            if (calls.incrementAndGet() % 2 == 0) {
              throw new AssertionError("a listener's error");
            }
            throw new IllegalStateException("a listener's exception");
          }

          @Override
          public void skipped(SkippedSnapshot skipped) {
            throw new StackOverflowError("a listener's end");
          }

          @Override
          public void ended(boolean closed) {
            told.ended(closed);
            throw new IllegalStateException("a listener's last word");
          }
        };
    try (RepeatedSnapshots snapshots =
        begin(plan(Duration.ofMillis(200)).listener(failing).build())) {
      told.awaitMade(3);
      assertTrue(snapshots.isActive());
    }
    assertEquals(List.of(true), told.ended);
    assertEquals(Optional.empty(), subject.fault());
  }

  @Test
  void aListenerMayCloseThem() {
    AtomicReference<RepeatedSnapshots> snapshots = new AtomicReference<>();
    CountDownLatch begun = new CountDownLatch(1);
    SnapshotListener closing =
        new SnapshotListener() {
          @Override
          public void made(ProcessImage image) {
            told.made(image);
            awaitUninterruptibly(begun);
            snapshots.get().close();
          }

          @Override
          public void ended(boolean closed) {
            told.ended(closed);
          }
        };
    snapshots.set(begin(plan(OFTEN).listener(closing).build()));
    begun.countDown();
    told.awaitEnded();
    assertEquals(1, told.made.size());
    assertEquals(List.of(true), told.ended);
  }

  @Test
  void aProcessThatDidNotComeBackIsBroughtBack() {
    try (RepeatedSnapshots snapshots = begin(plan(NEVER).build())) {
      machine.driver.faults(
          Fault.in("cuCheckpointProcessRestore").pid(subject.pid()).call(1).answers(NOT_READY));
      assertThrows(RuntimeException.class, snapshots::snapshotNow);
      assertEquals(1, told.failed.size());
      assertEquals("RUNNING", checkpoints.inspect(subject.pid()).state().name());
      assertEquals(Optional.empty(), subject.fault());
      snapshots.snapshotNow().verify();
    }
    assertEquals(Optional.empty(), subject.fault());
  }

  @Test
  void theyEndWithTheProcessWhichComesBackFromTheNewestThatVerifies() throws IOException {
    RepeatedSnapshots snapshots = begin(plan(OFTEN).build());
    told.awaitMade(3);
    kill();
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

    ImageCorruptException damaged =
        assertThrows(ImageCorruptException.class, () -> store().verify(store().list().get(0)));
    assertTrue(damaged.getMessage().contains("inventory.img"), damaged.getMessage());
    ProcessImage newest = store().newestThatVerifies(skipped::add);
    assertEquals(newestFirst.get(1), newest.directory());
    assertTrue(skipped.get(0).toString().contains("inventory.img"), skipped::toString);
    assertEquals(newestFirst.get(0), skipped.get(0).directory());

    store().restoreNewest(RestoreOptions.ofDefaults(), skipped::add).resume();
    assertEquals(newestFirst.get(0), skipped.get(1).directory());
    assertEquals(Optional.empty(), subject.fault());
  }

  @Test
  void whereNoImageVerifiesTheMessageNamesThem() throws IOException {
    ImageMissingException none =
        assertThrows(ImageMissingException.class, store()::newestThatVerifies);
    assertTrue(none.getMessage().contains("there is none"), none.getMessage());
    Files.createSymbolicLink(machine.images().resolve("link"), directory);
    ImageMissingException link =
        assertThrows(ImageMissingException.class, store()::newestThatVerifies);
    assertTrue(link.getMessage().contains("link is a link"), link.getMessage());
    assertThrows(ImageMissingException.class, () -> store().verify(store().list().get(0)));
  }

  @Test
  void aClockThatStepsBackLosesNoOrder() {
    Instant noon = Instant.parse("2026-11-21T12:00:00Z");
    AtomicReference<Instant> clock = new AtomicReference<>(noon);
    ImageStore store = ClockedStore.at(checkpoints, machine.images(), clock::get);
    SnapshotPlan plan = SnapshotPlan.every(NEVER, store).listener(told).build();
    try (RepeatedSnapshots snapshots = begin(plan)) {
      Path first = snapshots.snapshotNow().directory();
      clock.set(noon.minus(Duration.ofHours(3)));
      Path second = snapshots.snapshotNow().directory();
      clock.set(noon.minus(Duration.ofDays(3)));
      Path third = snapshots.snapshotNow().directory();
      assertEquals(List.of(third, second, first), complete(store));
      assertEquals(List.of(first, second, third), complete(store).stream().sorted().toList());
      assertEquals(noon.plusMillis(2), snapshots.last().orElseThrow().manifest().created());
    }
  }

  @Test
  void twoProcessesMayShareADirectory() {
    try (Subject other = Subject.start(machine.driver)) {
      SnapshotPlan.Builder plan =
          plan(OFTEN).retention(RetentionPolicy.builder().keepLast(1).build());
      ToldSnapshots toldOther = new ToldSnapshots();
      GpuCheckpoints another = machine.checkpoints();
      SnapshotPlan plans =
          SnapshotPlan.every(OFTEN, another.store(machine.images()))
              .retention(RetentionPolicy.builder().keepLast(1).build())
              .listener(toldOther)
              .build();
      try (RepeatedSnapshots ours = begin(plan.build());
          RepeatedSnapshots theirs = another.process(other.pid()).repeatSnapshots(plans)) {
        told.awaitMade(2);
        toldOther.awaitMade(2);
        assertTrue(ours.isActive() && theirs.isActive());
      }
      assertEquals(List.of(), told.failed);
      assertEquals(List.of(), toldOther.failed);
      assertEquals(2, complete(store()).size());
      assertEquals(Optional.empty(), subject.fault());
      assertEquals(Optional.empty(), other.fault());
    }
  }

  @Test
  void whatCannotWorkIsSaidAtTheStart() throws IOException {
    Path file = Files.createFile(directory.resolve("file"));
    SnapshotPlan nowhere = SnapshotPlan.every(NEVER, checkpoints.store(file)).build();
    assertThrows(ImageDirectoryException.class, () -> begin(nowhere));
    Path secret = Files.write(directory.resolve("key"), new byte[32]);
    Files.setPosixFilePermissions(secret, PosixFilePermissions.fromString("rw-------"));
    GpuCheckpoints signing = checkpoints.toBuilder().imageKey(ImageKey.read(secret)).build();
    SnapshotPlan signed = SnapshotPlan.every(NEVER, signing.store(machine.images())).build();
    assertThrows(IllegalArgumentException.class, () -> begin(signed));
    assertThrows(IllegalArgumentException.class, () -> SnapshotPlan.every(Duration.ZERO, store()));
    FileTree.remove(machine.images());
    begin(plan(NEVER).build()).close();
    assertTrue(Files.isDirectory(machine.images()), "it is made");
    assertEquals(Optional.empty(), subject.fault());
    try (CheckpointedProcess suspended = checkpoints.process(subject.pid()).suspend()) {
      assertEquals(subject.pid(), suspended.pid());
      assertThrows(RuntimeException.class, () -> begin(plan(NEVER).build()));
    }
  }
}
