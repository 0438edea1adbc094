package dev.gpuprocess.survival;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.contract.FailingCriu;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.criu.BadCriu;
import dev.gpuprocess.criu.RealCriu;
import dev.gpuprocess.criu.RpcCriuDriver;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.Fate;
import dev.gpuprocess.error.ImageKeptException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.internal.proc.LifeSign;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.Timeouts;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.CriuDriver;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * A killed process whose teardown takes long, as with much memory. Even if a deadline passes, its
 * image stays.
 */
@OutsideUse("A1")
class SlowTeardownTest {

  private static final Duration SHORT = Duration.ofSeconds(15);

  /** Longer than the wait before an image was once removed. */
  private static final int LONG_SECONDS = 20;

  /** The CRIU doubles write no list of mapped files. */
  private static final DumpOptions BY_CRIU_ALONE = DumpOptions.builder().memoryFiles(false).build();

  @TempDir Path directory;

  /** Dumps a process that is held at its exit when CRIU may kill it. */
  private ProcessImage dumpWithHeldExit(SimulatedMachine machine, Subject subject, CriuDriver criu)
      throws Exception {
    Path program = HeldExit.program(directory);
    List<HeldExit> held = new CopyOnWriteArrayList<>();
    CriuDriver watched =
        WatchedCriu.of(
            criu,
            moment -> {
              if (moment.equals(WatchedCriu.STAGE + "may kill")) {
                held.add(HeldExit.of(program, subject.pid()));
              }
            },
            SHORT);
    CheckpointedProcess suspended =
        machine.checkpoints().toBuilder().criu(watched).build().process(subject.pid()).suspend();
    CompletableFuture<ProcessImage> dump =
        CompletableFuture.supplyAsync(() -> suspended.dump(machine.image(), BY_CRIU_ALONE));
    try {
      Workload.await(
          () -> dump.isDone() || LifeSign.of(subject.pid()) == LifeSign.ENDING, "the kill");
      assertTrue(ProcessIdentity.of(subject.pid()).orElseThrow().isAlive());
      try {
        // Either it gives up, which is the fault, or it still waits.
        return dump.get(LONG_SECONDS, SECONDS);
      } catch (TimeoutException e) {
        held.forEach(HeldExit::close);
        return dump.get(30, SECONDS);
      }
    } finally {
      held.forEach(HeldExit::close);
    }
  }

  @Test
  void dump_teardownOutlastsTheDeadline_imageStays() throws Exception {
    try (SimulatedMachine machine = new SimulatedMachine(directory.resolve("machine"));
        Subject subject = Subject.start(machine.driver)) {
      CriuDriver criu = BadCriu.afterWork(directory, kill(subject) + "reply($DUMP, 1)");
      dumpWithHeldExit(machine, subject, criu).verify();
      Workload.await(() -> !subject.isAlive(), "the process to be gone");
    }
  }

  @Test
  void dump_criuDiesInTheWindow_imageStays() throws Exception {
    try (SimulatedMachine machine = new SimulatedMachine(directory.resolve("machine"));
        Subject subject = Subject.start(machine.driver)) {
      CriuDriver criu = BadCriu.afterWork(directory, kill(subject) + "kill 'KILL', $$");
      dumpWithHeldExit(machine, subject, criu).verify();
      Workload.await(() -> !subject.isAlive(), "the process to be gone");
    }
  }

  private static String kill(Subject subject) {
    return "kill 'KILL', " + subject.pid() + "; ";
  }

  @Test
  void dump_realCriuDiesOnceItMayKill_nothingIsLost() {
    RealCriu.assume();
    try (SimulatedMachine machine = new SimulatedMachine(directory.resolve("machine"));
        Subject subject = Subject.start(machine.driver)) {
      CriuDriver watched =
          WatchedCriu.of(
              new RpcCriuDriver(),
              moment -> {
                if (moment.equals(WatchedCriu.STAGE + "may kill")) {
                  Signals.send(Signals.criuOf(subject.pid()).orElseThrow(), Signals.KILL);
                }
              },
              Duration.ofSeconds(30));
      CheckpointedProcess suspended =
          machine.checkpoints().toBuilder().criu(watched).build().process(subject.pid()).suspend();
      CriuException e = assertThrows(CriuException.class, () -> suspended.dump(machine.image()));
      assertEquals(Fate.RUNNING_AGAIN, e.failure().fate());
      assertEquals(List.of(), SimulatedMachine.names(machine.images()));
      suspended.resume();
      assertEquals(Optional.empty(), subject.fault());
    }
  }

  /** Runs the real CRIU, whose process then dies. */
  private static CriuDriver dyingWith(Subject subject) {
    return FailingCriu.afterADump(
        new RpcCriuDriver(),
        subject.pid(),
        Fate.UNKNOWN,
        () -> {
          Signals.send(ProcessIdentity.of(subject.pid()).orElseThrow(), Signals.KILL);
          Workload.await(() -> !subject.isAlive(), "the process to be gone");
        });
  }

  @Test
  void snapshot_processDiesWithItsCriu_imageStays() {
    RealCriu.assume();
    try (SimulatedMachine machine = new SimulatedMachine(directory.resolve("machine"));
        Subject subject = Subject.start(machine.driver)) {
      GpuCheckpoints dying = machine.checkpoints().toBuilder().criu(dyingWith(subject)).build();
      NoSuchProcessException gone =
          assertThrows(
              NoSuchProcessException.class,
              () -> dying.process(subject.pid()).snapshot(machine.image()));
      assertEquals(Fate.GONE_AND_DURABLE, gone.failure().fate());
      assertTrue(gone.getMessage().contains(machine.image().toString()), gone.getMessage());
      Workload.await(() -> Files.notExists(ProcFs.file(subject.pid())), "its pid");
      machine.checkpoints().open(machine.image()).restore().resume();
      assertEquals(Optional.empty(), subject.fault());
    }
  }

  /** A resume of a tree whose members are gone does not fail. */
  @Test
  void snapshot_treeDiesWithItsCriuAndIsCancelled_imageStays() {
    RealCriu.assume();
    Cancellation cancellation = new Cancellation();
    CriuException[] thrown = new CriuException[1];
    try (SimulatedMachine machine = new SimulatedMachine(directory.resolve("machine"));
        JobSubject job = JobSubject.startPair(machine.driver, 1)) {
      ProcessIdentity root = ProcessIdentity.of(job.pid()).orElseThrow();
      Runnable death =
          () -> {
            Signals.send(root, Signals.KILL);
            Workload.await(() -> !job.isAlive() && job.living().isEmpty(), "the tree to be gone");
            cancellation.cancel();
          };
      GpuCheckpoints dying =
          machine.checkpoints().toBuilder().criu(ending(Fate.ENDED, thrown, death)).build();
      DumpOptions options = BY_CRIU_ALONE.toBuilder().cancellation(cancellation).build();
      NoSuchProcessException gone =
          assertThrows(
              NoSuchProcessException.class,
              () -> dying.process(job.pid()).snapshot(machine.image(), options));
      assertSame(thrown[0], gone.getCause());
      assertEquals(Fate.GONE_AND_DURABLE, gone.failure().fate());
      assertTrue(gone.getMessage().contains(machine.image().toString()), gone.getMessage());
      machine.checkpoints().open(machine.image()).verify();
      assertEquals(List.of(), machine.journal());
    }
  }

  @Test
  void snapshot_whetherTheProcessLivesIsNotKnown_imageIsKeptAndNamed() {
    RealCriu.assume();
    try (SimulatedMachine machine = new SimulatedMachine(directory.resolve("machine"));
        Subject subject = Subject.start(machine.driver)) {
      CriuException[] thrown = new CriuException[1];
      GpuCheckpoints checkpoints =
          machine.checkpoints().toBuilder().criu(ending(Fate.UNKNOWN, thrown)).build();
      ImageKeptException kept =
          assertThrows(
              ImageKeptException.class,
              () -> checkpoints.process(subject.pid()).snapshot(machine.image(), BY_CRIU_ALONE));
      assertSame(thrown[0], kept.getCause());
      checkpoints.open(kept.image()).verify();
      assertEquals(Optional.empty(), subject.fault());
    }
  }

  /** A CRIU that is allowed to kill and then fails. */
  private static CriuDriver ending(Fate fate, CriuException[] thrown) {
    return ending(fate, thrown, () -> {});
  }

  private static CriuDriver ending(Fate fate, CriuException[] thrown, Runnable death) {
    return FailingCriu.whenItMayKill(
        new RpcCriuDriver(),
        pid -> true,
        pid -> {
          death.run();
          thrown[0] = FailingCriu.failure(pid, fate);
          return thrown[0];
        });
  }

  @Test
  void dump_whetherTheProcessLivesIsNotKnown_imageIsKeptAndNamed() {
    RealCriu.assume();
    try (SimulatedMachine machine = new SimulatedMachine(directory.resolve("machine"));
        Subject subject = Subject.start(machine.driver)) {
      CriuException[] thrown = new CriuException[1];
      GpuCheckpoints checkpoints =
          machine.checkpoints().toBuilder()
              .criu(ending(Fate.UNKNOWN, thrown))
              .timeouts(Timeouts.builder().lock(SHORT).call(SHORT).transfer(SHORT).build())
              .build();
      CheckpointedProcess suspended = checkpoints.process(subject.pid()).suspend();
      ImageKeptException kept =
          assertThrows(
              ImageKeptException.class, () -> suspended.dump(machine.image(), BY_CRIU_ALONE));
      assertEquals(machine.image(), kept.image());
      assertSame(thrown[0], kept.getCause());
      assertEquals(Fate.UNKNOWN, kept.failure().fate());
      assertTrue(kept.getMessage().contains("restore the image"), kept.getMessage());
      checkpoints.open(machine.image()).verify();
      suspended.resume();
      assertEquals(Optional.empty(), subject.fault());
    }
  }

  @Test
  void dump_processCertainlyLives_imageIsTakenBack() {
    RealCriu.assume();
    try (SimulatedMachine machine = new SimulatedMachine(directory.resolve("machine"));
        Subject subject = Subject.start(machine.driver)) {
      CriuException[] thrown = new CriuException[1];
      GpuCheckpoints checkpoints =
          machine.checkpoints().toBuilder().criu(ending(Fate.RUNNING_AGAIN, thrown)).build();
      CheckpointedProcess suspended = checkpoints.process(subject.pid()).suspend();
      CriuException told =
          assertThrows(CriuException.class, () -> suspended.dump(machine.image(), BY_CRIU_ALONE));
      assertSame(thrown[0], told);
      assertEquals(List.of(), SimulatedMachine.names(machine.images()));
      suspended.resume();
      assertEquals(Optional.empty(), subject.fault());
    }
  }
}
