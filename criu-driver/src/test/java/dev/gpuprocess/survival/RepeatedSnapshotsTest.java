package dev.gpuprocess.survival;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.ClockedStore;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ImageStore;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.RepeatedSnapshots;
import dev.gpuprocess.SnapshotPlan;
import dev.gpuprocess.criu.RpcCriuDriver;
import dev.gpuprocess.criu.ToldSnapshots;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.image.StoredImage;
import dev.gpuprocess.internal.state.NamedLock;
import dev.gpuprocess.internal.state.StateDirectory;
import dev.gpuprocess.options.RetentionPolicy;
import dev.gpuprocess.options.Timeouts;
import dev.gpuprocess.report.SkippedSnapshot;
import dev.gpuprocess.report.SkippedSnapshot.Reason;
import dev.gpuprocess.report.StepListener;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;

/** The contract of repeated snapshots, with a single process. */
class RepeatedSnapshotsTest extends RepeatedSnapshotsContract {

  private static final long DISK_BYTES = 400L << 20;

  @Override
  Snapshotted start(SimulatedMachine machine) {
    return new Snapshotted.OfProcess(Subject.start(machine.driver));
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
  void twoMayShareADirectory() {
    try (Snapshotted other = start(machine)) {
      SnapshotPlan.Builder plan =
          plan(OFTEN).retention(RetentionPolicy.builder().keepLast(1).build());
      ToldSnapshots toldOther = new ToldSnapshots();
      GpuCheckpoints another = machine.checkpoints();
      SnapshotPlan plans =
          SnapshotPlan.into(another.store(machine.images()))
              .every(OFTEN)
              .retention(RetentionPolicy.builder().keepLast(1).build())
              .listener(toldOther)
              .build();
      try (RepeatedSnapshots ours = begin(plan.build());
          RepeatedSnapshots theirs = other.begin(another, plans)) {
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
  void theNewestThatVerifiesIsFoundPastOneThatDoesNot() throws IOException {
    try (RepeatedSnapshots snapshots = begin(plan(NEVER).build())) {
      Path good = snapshots.snapshotNow().directory();
      Path damaged = snapshots.snapshotNow().directory();
      Files.write(damaged.resolve("criu/inventory.img"), new byte[1], StandardOpenOption.APPEND);
      List<StoredImage> skipped = new ArrayList<>();
      assertEquals(good, store().newestThatVerifies(skipped::add).directory());
      assertEquals(damaged, skipped.get(0).directory());
    }
  }

  @Test
  void whereNoImageVerifiesTheMessageNamesThem() throws IOException {
    ImageException none =
        assertReason(
            ImageException.class, ImageException.Reason.MISSING, store()::newestThatVerifies);
    assertTrue(none.getMessage().contains("there is none"), none.getMessage());
    Files.createSymbolicLink(machine.images().resolve("link"), directory);
    ImageException link =
        assertReason(
            ImageException.class, ImageException.Reason.MISSING, store()::newestThatVerifies);
    assertTrue(link.getMessage().contains("link is a link"), link.getMessage());
    assertReason(
        ImageException.class,
        ImageException.Reason.MISSING,
        () -> store().verify(store().list().get(0)));
  }

  @Test
  void aClockThatStepsBackLosesNoOrder() {
    Instant noon = Instant.parse("2026-11-21T12:00:00Z");
    AtomicReference<Instant> clock = new AtomicReference<>(noon);
    ImageStore store = ClockedStore.at(checkpoints, machine.images(), clock::get);
    SnapshotPlan plan = SnapshotPlan.into(store).every(NEVER).listener(told).build();
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
    try (RepeatedSnapshots snapshots = subject.begin(slow, plan(OFTEN).build())) {
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

  /** As when another JVM that reserves GPU memory is stopped. */
  @Test
  void aProcessThatCouldNotReserveGpuMemoryIsBroughtBack() {
    AtomicReference<NamedLock> gate = new AtomicReference<>();
    told =
        new ToldSnapshots() {
          @Override
          public void failed(Throwable why) {
            super.failed(why);
            gate.get().closeAndForget();
          }
        };
    StepListener holding =
        new StepListener() {
          @Override
          public void started(String name, int pid) {
            if (name.equals("dump")) {
              gate.set(reservations());
            }
          }
        };
    GpuCheckpoints hasty =
        checkpoints.toBuilder()
            .listener(holding)
            .timeouts(Timeouts.builder().call(Duration.ofSeconds(10)).memory(Duration.ZERO).build())
            .build();
    try (RepeatedSnapshots snapshots = subject.begin(hasty, plan(NEVER).build())) {
      assertThrows(OperationInProgressException.class, snapshots::snapshotNow);
      assertEquals(List.of(), told.skipped);
      assertEquals(1, told.failed.size());
      assertEquals(ProcessState.RUNNING, subject.state(checkpoints));
    } finally {
      gate.get().closeAndForget();
    }
    assertEquals(Optional.empty(), subject.fault());
  }

  /** Locks the reservations of GPU memory, as a check by another JVM does. */
  private NamedLock reservations() {
    try {
      return new StateDirectory(machine.state())
          .lock("gpu-room", "restore", Duration.ofSeconds(30))
          .orElseThrow();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Test
  void aFullDiskCostsNoMoreThanTheImagesThatDoNotFit() throws IOException {
    try (LoopMount disk = LoopMount.in(directory, DISK_BYTES)) {
      told = atTheFirst(() -> fill(disk));
      SnapshotPlan plan =
          SnapshotPlan.into(checkpoints.store(disk.path().resolve("images")))
              .every(OFTEN)
              .listener(told)
              .build();
      try (RepeatedSnapshots snapshots = begin(plan)) {
        ImageException full = assertInstanceOf(ImageException.class, told.awaitFailed());
        assertEquals(ImageException.Reason.DISK_FULL, full.reason());
        Files.delete(disk.path().resolve("filler"));
        told.awaitMade(1);
        assertTrue(snapshots.isActive());
      }
      assertEquals(Optional.empty(), subject.fault());
      plan.place().verify(plan.place().list().get(0));
    }
  }

  @Test
  void aDirectoryThatIsGoneIsNotMadeAgainAndUsedWhenItIsBack() {
    Path away = directory.resolve("away");
    told = atTheFirst(() -> move(machine.images(), away));
    try (RepeatedSnapshots snapshots = begin(plan(OFTEN).build())) {
      assertTrue(saysItIsGone(told.awaitFailed()), told.failed::toString);
      assertTrue(Files.notExists(machine.images()));
      move(away, machine.images());
      told.awaitMade(1);
      assertTrue(snapshots.isActive());
    }
    assertEquals(2, complete(store()).size(), () -> store().list().toString());
    assertEquals(Optional.empty(), subject.fault());
  }

  @Test
  void aListenerThatFailsInEveryWayEndsNothing() {
    AtomicInteger calls = new AtomicInteger();
    told =
        new ToldSnapshots() {
          @Override
          public void made(ProcessImage image) {
            super.made(image);
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
            super.ended(closed);
            throw new IllegalStateException("a listener's last word");
          }
        };
    try (RepeatedSnapshots snapshots = begin(plan(Duration.ofMillis(200)).build())) {
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
    told =
        new ToldSnapshots() {
          @Override
          public void made(ProcessImage image) {
            super.made(image);
            awaitUninterruptibly(begun);
            snapshots.get().close();
          }
        };
    snapshots.set(begin(plan(OFTEN).build()));
    begun.countDown();
    told.awaitEnded();
    assertEquals(1, told.made.size());
    assertEquals(List.of(true), told.ended);
  }

  private static void awaitUninterruptibly(CountDownLatch gate) {
    try {
      gate.await();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Runs an action when the first image is made. */
  private static ToldSnapshots atTheFirst(Runnable action) {
    return new ToldSnapshots() {
      @Override
      public void made(ProcessImage image) {
        if (made.isEmpty()) {
          action.run();
        }
        super.made(image);
      }
    };
  }

  private static void fill(LoopMount disk) {
    try {
      disk.fill();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static void move(Path from, Path to) {
    try {
      Files.move(from, to);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static boolean saysItIsGone(Throwable why) {
    return why instanceof ImageException image
        && image.reason() == ImageException.Reason.DIRECTORY
        && why.getMessage().contains("no longer exists");
  }
}
