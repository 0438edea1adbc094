package dev.gpuprocess;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.JournalFiles;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.internal.cuda.LibCuda;
import dev.gpuprocess.internal.linux.DirectoryMaker;
import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.state.GpuUsage;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.options.Timeouts;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.RecoveryOutcome;
import java.io.File;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** What stands in the state directory and is not what it says, or not ours. */
@SimulatedGpu
@Tag("slow")
record ForgedEntriesTest(SimulatedDriver machine, GpuCheckpoints checkpoints, Counter counter) {

  private static final Duration HASTE = Duration.ofSeconds(6);

  private List<RecoveryOutcome> recover() {
    return checkpoints.recover().stream().map(Recovered::outcome).toList();
  }

  /** Of a restore that a dead controller began before the process was there. */
  private void writeRestore(int pid, Path log) throws IOException {
    new Journal(checkpoints.context().state())
        .writeRestore(pid, GpuUsage.UNKNOWN, machine.directory().resolve("image"), log);
    Path written = JournalFiles.in(machine.stateDirectory()).get(0);
    String text =
        Files.readString(written)
            .replaceAll("controller.start=\\d+", "controller.start=1")
            .replaceAll("target.start=\\d+", "target.start=7");
    Files.delete(written);
    Files.writeString(
        machine
            .stateDirectory()
            .resolve("%s-%s-7.process".formatted(ProcessKey.self().namespace() + "", pid + "")),
        text);
  }

  private Process holding(Path file) throws IOException {
    return new ProcessBuilder("sleep", "60").redirectOutput(file.toFile()).start();
  }

  @Test
  @OutsideUse("D3")
  void restoreEntry_processHoldsALogThatOthersCouldHaveMade_isNotEnded() throws Exception {
    Path log = Files.createDirectory(machine.directory().resolve("gpuprocess-restore-1"));
    Files.setPosixFilePermissions(log, PosixFilePermissions.fromString("rwxr-xr-x"));
    Process victim = holding(log.resolve("restore.log"));
    try {
      writeRestore((int) victim.pid(), log);
      assertEquals(List.of(RecoveryOutcome.GONE), recover());
      assertTrue(victim.isAlive());
    } finally {
      victim.destroyForcibly().waitFor();
    }
  }

  @Test
  @OutsideUse("D3")
  void restoreEntry_processIsWhatCriuHalfRestored_isEnded() throws Exception {
    Path log = Files.createDirectory(machine.directory().resolve("gpuprocess-restore-1"));
    Files.setPosixFilePermissions(log, PosixFilePermissions.fromString("rwx------"));
    Process half = holding(log.resolve("restore.log"));
    try {
      writeRestore((int) half.pid(), log);
      assertEquals(List.of(RecoveryOutcome.HALF_RESTORED_ENDED), recover());
      assertTrue(half.waitFor(30, SECONDS));
    } finally {
      half.destroyForcibly().waitFor();
    }
  }

  /** A recovery of another state directory must not remove the log, which alone shows the fault. */
  @Test
  void restoreEntry_afterARecoveryOfAnotherStateDirectory_isEnded() throws Exception {
    String name = DirectoryMaker.temporaryName("restore");
    ProcessIdentity self = DirectoryMaker.ofTemporary(name).orElseThrow().process();
    String ofADeadMaker =
        name.replace("-" + self.startTicks() + "-", "-" + (self.startTicks() + 1) + "-");
    Path log = Path.of(System.getProperty("java.io.tmpdir")).resolve(ofADeadMaker);
    DurableFiles.createDirectory(log);
    Process half = holding(log.resolve("restore.log"));
    try {
      writeRestore((int) half.pid(), log);
      Path elsewhere = machine.directory().resolve("elsewhere");
      assertEquals(List.of(), checkpoints.toBuilder().stateDirectory(elsewhere).build().recover());
      assertEquals(List.of(RecoveryOutcome.HALF_RESTORED_ENDED), recover());
      assertTrue(half.waitFor(30, SECONDS));
      assertFalse(Files.exists(log));
    } finally {
      half.destroyForcibly().waitFor();
      DurableFiles.delete(log);
    }
  }

  @Test
  void restoreEntry_afterARecoveryThatCouldNotLookAtIt_isEnded() throws Exception {
    Path log = machine.directory().resolve("gpuprocess-restore-1");
    DurableFiles.createDirectory(log);
    Process half = holding(log.resolve("restore.log"));
    try {
      writeRestore((int) half.pid(), log);
      ProcessIdentity process = ProcessIdentity.of(half.pid()).orElseThrow();
      ProcessLock turn =
          ProcessLock.take(
              ProcessKey.of(process),
              process.pid(),
              "restore",
              ProcessLock.Kind.MOVE,
              checkpoints.context().state(),
              Duration.ZERO);
      GpuCheckpoints hasty =
          checkpoints.toBuilder().timeouts(Timeouts.builder().call(HASTE).build()).build();
      assertEquals(RecoveryOutcome.IN_USE, hasty.recover().get(0).outcome());
      turn.release();
      assertEquals(List.of(RecoveryOutcome.HALF_RESTORED_ENDED), recover());
      assertTrue(half.waitFor(30, SECONDS));
      assertFalse(Files.exists(log));
    } finally {
      half.destroyForcibly().waitFor();
    }
  }

  @Test
  @OutsideUse("A22")
  void restoreEntry_pidIsALockedStrangersByNow_isNotUnlocked() throws IOException {
    LockedProcess stranger =
        checkpoints.toBuilder()
            .stateDirectory(machine.directory().resolve("elsewhere"))
            .build()
            .process(counter.pid())
            .lock();
    Files.createDirectory(
        machine.stateDirectory(),
        PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
    writeRestore((int) counter.pid(), machine.directory().resolve("gpuprocess-restore-1"));
    assertEquals(List.of(RecoveryOutcome.GONE), recover());
    assertInstanceOf(LockedProcess.class, checkpoints.inspect(counter.pid()));
    assertEquals(List.of(), recover());
    stranger.unlock();
    assertEquals(101, counter.increment());
  }

  @Test
  @OutsideUse("A22")
  void lateUndo_processEndedMeanwhile_isNotTriedOnWhoeverHasThePid() {
    ConcurrentLinkedQueue<String> calls = new ConcurrentLinkedQueue<>();
    Object real = LibCuda.in(machine.directory());
    dev.gpuprocess.cuda.CudaDriver watched =
        (dev.gpuprocess.cuda.CudaDriver)
            Proxy.newProxyInstance(
                getClass().getClassLoader(),
                new Class<?>[] {dev.gpuprocess.cuda.CudaDriver.class},
                (proxy, method, arguments) -> {
                  calls.add(method.getName());
                  try {
                    return method.invoke(real, arguments);
                  } catch (InvocationTargetException e) {
                    throw e.getCause();
                  }
                });
    machine.faults(Fault.in("cuCheckpointProcessLock").hangs());
    RunningProcess running =
        checkpoints.toBuilder().cuda(watched, checkpoints.gpus()).build().toBuilder()
            .timeouts(Timeouts.builder().lock(Duration.ofMillis(100)).call(HASTE).build())
            .build()
            .process(counter.pid());
    assertThrows(OperationTimedOutException.class, running::lock);
    counter.kill();
    calls.clear();
    machine.clearFaults();
    await().atMost(20, SECONDS).until(() -> GpuCheckpoints.abandonedCalls() == 0);
    assertEquals(List.of(), List.copyOf(calls));
  }

  @Test
  @OutsideUse("A21")
  void entry_hasTheNameOfAnother_isPutAsideAndNotToldForEver() throws IOException {
    LockedProcess locked = checkpoints.process(counter.pid()).lock();
    Path entry = JournalFiles.in(machine.stateDirectory()).get(0);
    Files.copy(entry, machine.stateDirectory().resolve("1-2-3.process"));
    Files.writeString(machine.stateDirectory().resolve("4-5-6.process"), "nonsense");
    assertEquals(List.of(RecoveryOutcome.IN_USE), recover());
    assertEquals(List.of(RecoveryOutcome.IN_USE), recover());
    assertEquals(List.of(entry), JournalFiles.in(machine.stateDirectory()));
    try (Stream<Path> files = Files.list(machine.stateDirectory())) {
      assertEquals(2, files.filter(file -> file.toString().endsWith(".unread")).count());
    }
    locked.unlock();
    assertEquals(101, counter.increment());
    assertEquals(List.of(), recover());
  }

  @Test
  @OutsideUse("A17")
  void entry_isAPipe_recoverDoesNotWaitForIt() throws Exception {
    checkpoints.process(counter.pid()).lock().unlock();
    File pipe = machine.stateDirectory().resolve("1-2-3.process").toFile();
    ProgramRun.of("mkfifo", pipe.toString()).succeed();
    assertEquals(List.of(), recover());
    assertFalse(pipe.exists());
  }

  @Test
  @OutsideUse("D3")
  void directory_othersCanWriteThere_nothingInItIsDoneOrBelieved() throws IOException {
    LockedProcess locked = checkpoints.process(counter.pid()).lock();
    Files.setPosixFilePermissions(
        machine.stateDirectory(), PosixFilePermissions.fromString("rwxrwxrwx"));
    FixAndRetryException refused =
        assertReason(
            FixAndRetryException.class,
            FixAndRetryException.Reason.STATE_DIRECTORY,
            locked::checkpoint);
    assertTrue(refused.getMessage().contains("GPUPROCESS_STATE_DIR"), refused.getMessage());
    assertReason(
        FixAndRetryException.class,
        FixAndRetryException.Reason.STATE_DIRECTORY,
        checkpoints::recover);
    assertTrue(checkpoints.doctor().toString().contains("can be written by others"));
    locked.unlock();
    assertEquals(101, counter.increment(), "what brings back goes on without it");
  }

  @Test
  @OutsideUse("A17")
  void directory_isALinkOfAStranger_victimsFileStaysAsItIs() throws IOException {
    Path victim = Files.createDirectory(machine.directory().resolve("victim"));
    Files.createSymbolicLink(machine.stateDirectory(), victim);
    RunningProcess running = checkpoints.process(counter.pid());
    assertReason(
        FixAndRetryException.class, FixAndRetryException.Reason.STATE_DIRECTORY, running::lock);
    assertReason(
        FixAndRetryException.class,
        FixAndRetryException.Reason.STATE_DIRECTORY,
        checkpoints::recover);
    assertTrue(checkpoints.doctor().toString().contains("is a symbolic link"));
    Files.delete(victim);
    assertReason(
        FixAndRetryException.class, FixAndRetryException.Reason.STATE_DIRECTORY, running::lock);
    assertTrue(checkpoints.doctor().toString().contains("is a symbolic link"), "dangling");
    assertEquals(101, counter.increment());
  }
}
