package dev.gpuprocess;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.JournalFiles;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.TmpFs;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.internal.linux.DirectoryMaker;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.linux.StagingName;
import dev.gpuprocess.internal.proc.FileId;
import dev.gpuprocess.internal.state.GpuUsage;
import dev.gpuprocess.internal.state.ImageEntry;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.internal.state.JournalEntry;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.internal.state.StateDirectory;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.RecoveryOutcome;
import dev.gpuprocess.report.StepListener;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What recover() does with entries of dead controllers and with those of live ones. */
@SimulatedGpu
record RecoveryTest(SimulatedDriver machine, GpuCheckpoints checkpoints) {

  private Path state() {
    return machine.stateDirectory();
  }

  private Recovered recoverOne() {
    List<Recovered> all = checkpoints.recover();
    assertEquals(1, all.size(), all.toString());
    return all.get(0);
  }

  @Test
  void lockedProcessIsUnlocked(Counter counter) throws IOException {
    LockedProcess left = checkpoints.process(counter.pid()).lock();
    JournalFiles.controllerDies(state());
    assertEquals(RecoveryOutcome.UNLOCKED, recoverOne().outcome());
    assertEquals(101, counter.increment());
    assertEquals(List.of(), checkpoints.recover());
    assertNotNull(left);
  }

  @Test
  void checkpointedProcessIsOfferedAndKeptUntilItIsResumed(Counter counter) throws IOException {
    checkpoints.process(counter.pid()).suspend();
    JournalFiles.controllerDies(state());
    Recovered first = recoverOne();
    assertEquals(RecoveryOutcome.SUSPENDED, first.outcome());
    assertEquals(RecoveryOutcome.IN_USE, recoverOne().outcome(), "it is ours now");
    first.suspended().resume();
    assertEquals(101, counter.increment());
    assertEquals(List.of(), checkpoints.recover());
  }

  /** The entry is the only trace of the process. */
  @Test
  @OutsideUse("A6")
  void processThatIsOnceSaidToHaveNoCudaIsAskedAboutAgain(Counter counter) throws IOException {
    checkpoints.process(counter.pid()).suspend();
    JournalFiles.controllerDies(state());
    int notInitialized = 3;
    machine.faults(
        Fault.in("cuCheckpointProcessGetState").pid(counter.pid()).call(1).answers(notInitialized));
    Recovered found = recoverOne();
    assertEquals(RecoveryOutcome.SUSPENDED, found.outcome());
    found.suspended().resume();
    assertEquals(101, counter.increment());
  }

  /** A locked process must not be taken for a stranger because one call was answered wrongly. */
  @Test
  @OutsideUse("A6")
  void processThatIsSaidToHaveNoCudaWhenItIsUnlockedKeepsItsEntry(Counter counter)
      throws IOException {
    LockedProcess left = checkpoints.process(counter.pid()).lock();
    JournalFiles.controllerDies(state());
    int notInitialized = 3;
    machine.faults(
        Fault.in("cuCheckpointProcessUnlock").pid(counter.pid()).answers(notInitialized));
    assertEquals(RecoveryOutcome.UNREACHABLE, recoverOne().outcome());
    machine.clearFaults();
    assertEquals(RecoveryOutcome.UNLOCKED, recoverOne().outcome());
    assertEquals(101, counter.increment());
    assertNotNull(left);
  }

  /** The entry may lack the files of the memory, but must exist. */
  @Test
  void entryWithMoreSaveFilesThanItHoldsIsWrittenWithout(Counter counter) {
    CheckpointedProcess suspended = checkpoints.process(counter.pid()).suspend();
    ProcessKey key = ProcessKey.of(ProcessIdentity.of(counter.pid()).orElseThrow());
    Journal journal = new Journal(new StateDirectory(state()));
    List<FileId> many =
        LongStream.range(1, 10_000).mapToObj(inode -> new FileId("00:2f", inode)).toList();
    journal.write(
        JournalEntry.of(key, suspended.pid(), "checkpointed", GpuUsage.UNKNOWN, null, null)
            .in(many));
    assertEquals("checkpointed", journal.find(key).orElseThrow().step());
    assertEquals(RecoveryOutcome.IN_USE, recoverOne().outcome());
    suspended.resume();
    assertEquals(101, counter.increment());
  }

  private ProcessKey leaveRestoreEntry(long pid) {
    return new Journal(new StateDirectory(state()))
        .writeRestore(
            Math.toIntExact(pid),
            GpuUsage.UNKNOWN,
            state().resolve("image"),
            state().resolve("log"));
  }

  /** A controller without free descriptors leaves such an entry: it could not see the result. */
  @Test
  @OutsideUse("A6")
  void restoreThatALiveControllerLeftIsLookedInto() throws IOException {
    int gone;
    try (Counter counter = Counter.start(machine)) {
      gone = Math.toIntExact(counter.pid());
      ProcessKey left = leaveRestoreEntry(gone);
      // CRIU restores processes later than the entry; this process is older, so it is another one.
      assertEquals(RecoveryOutcome.GONE, recoverOne().outcome());
      assertEquals(List.of(), checkpoints.recover(), left::toString);
      assertEquals(101, counter.increment());
    }
  }

  /** The key of the process is that of the restore entry. */
  @Test
  @OutsideUse("A6")
  void processThatWasRestoredWithinATickKeepsAnEntry(Counter counter) {
    CheckpointedProcess restored = checkpoints.process(counter.pid()).suspend();
    ProcessKey key = ProcessKey.of(ProcessIdentity.of(counter.pid()).orElseThrow());
    Journal journal = new Journal(new StateDirectory(state()));
    journal.write(
        JournalEntry.of(key, restored.pid(), "criu restore", GpuUsage.UNKNOWN, null, null));
    assertEquals(RecoveryOutcome.IN_USE, recoverOne().outcome());
    assertEquals("checkpointed", journal.find(key).orElseThrow().step());
    journal.removeRestore(key);
    assertEquals("checkpointed", journal.find(key).orElseThrow().step());
    restored.resume();
    assertEquals(List.of(), checkpoints.recover());
    assertEquals(101, counter.increment());
  }

  @Test
  void restoreThatALiveControllerIsAtIsNotTouched() {
    int nobody = Integer.MAX_VALUE;
    ProcessLock turn =
        ProcessLock.take(
            new ProcessKey(ProcessKey.self().namespace(), nobody, 0),
            nobody,
            "restore",
            ProcessLock.Kind.MOVE,
            new StateDirectory(state()),
            Duration.ZERO);
    ProcessKey left = leaveRestoreEntry(nobody);
    assertEquals(RecoveryOutcome.IN_USE, recoverOne().outcome());
    assertEquals(RecoveryOutcome.IN_USE, recoverOne().outcome(), left::toString);
    turn.release();
    assertEquals(RecoveryOutcome.GONE, recoverOne().outcome());
    assertEquals(List.of(), checkpoints.recover());
  }

  @Test
  @OutsideUse("A6")
  void entryThatCannotBeWrittenLeavesNoHalf(Counter counter) throws IOException {
    ProcessKey key = ProcessKey.of(ProcessIdentity.of(counter.pid()).orElseThrow());
    // In the place of the entry, so that the write cannot be completed.
    Path place = Files.createDirectories(state().resolve(key.text() + ".process"));
    Files.createFile(place.resolve("file"));
    assertReason(
        FixAndRetryException.class,
        FixAndRetryException.Reason.STATE_DIRECTORY,
        () -> checkpoints.process(counter.pid()).suspend());
    try (Stream<Path> left = Files.list(state())) {
      assertEquals(List.of(), left.filter(file -> file.toString().endsWith(".half")).toList());
    }
    assertEquals(101, counter.increment());
  }

  @Test
  void workOfALiveControllerIsNotTouched(Counter counter) {
    LockedProcess locked = checkpoints.process(counter.pid()).lock();
    assertEquals(RecoveryOutcome.IN_USE, recoverOne().outcome());
    assertInstanceOf(LockedProcess.class, checkpoints.inspect(counter.pid()));
    locked.unlock();
  }

  /** A controller without free descriptors at the end of its verb leaves such an entry. */
  @Test
  @OutsideUse("A6")
  void entryThatALiveControllerLeftOfWhatRunsIsRemoved(Counter counter) {
    StepListener breaking =
        new StepListener() {
          @Override
          public void started(String name, int pid) {
            if (name.equals("unlock")) {
              machine.faults(
                  Fault.in("cuCheckpointProcessUnlock").after().answers(999),
                  Fault.in("cuCheckpointProcessGetState").answers(999));
            }
          }
        };
    CheckpointedProcess suspended =
        checkpoints.toBuilder().listener(breaking).build().process(counter.pid()).suspend();
    assertThrows(GpuCheckpointException.class, suspended::resume);
    machine.clearFaults();
    assertEquals(101, counter.increment());
    Recovered left = recoverOne();
    assertEquals(counter.pid(), left.process().pid());
    assertEquals(RecoveryOutcome.RUNNING, left.outcome());
    assertEquals(List.of(), checkpoints.recover());
  }

  /** The same for a controller that died during a dump. */
  @Test
  @OutsideUse("A6")
  void entryThatALiveControllerLeftOfWhatIsGoneIsRemovedWhenItsTurnHasEnded() {
    Counter counter = Counter.start(machine);
    ProcessKey key = ProcessKey.of(ProcessIdentity.of(counter.pid()).orElseThrow());
    int pid = Math.toIntExact(counter.pid());
    StateDirectory directory = new StateDirectory(state());
    ProcessLock turn =
        ProcessLock.take(key, pid, "dump", ProcessLock.Kind.MOVE, directory, Duration.ZERO);
    new Journal(directory)
        .write(
            JournalEntry.of(
                key,
                pid,
                "dump",
                GpuUsage.UNKNOWN,
                state().resolve("image"),
                state().resolve("log")));
    counter.close();
    assertTrue(counter.awaitExit(Duration.ofSeconds(30)));
    assertEquals(RecoveryOutcome.IN_USE, recoverOne().outcome());
    turn.release();
    assertEquals(RecoveryOutcome.GONE, recoverOne().outcome());
    assertEquals(List.of(), checkpoints.recover());
  }

  @Test
  void processThatTheDriverBrokeIsToldUntilItIsEnded(Counter counter) throws IOException {
    LockedProcess locked = checkpoints.process(counter.pid()).lock();
    machine.faults(Fault.in("cuCheckpointProcessCheckpoint").during().answers(999));
    assertThrows(GpuCheckpointException.class, locked::checkpoint);
    machine.clearFaults();
    JournalFiles.controllerDies(state());
    assertEquals(RecoveryOutcome.FAILED, recoverOne().outcome());
    assertEquals(RecoveryOutcome.FAILED, recoverOne().outcome());
    ((FailedProcess) checkpoints.inspect(counter.pid())).end();
    assertEquals(List.of(), checkpoints.recover());
  }

  @Test
  void processThatALiveControllerTookOverIsNotTouched(Counter counter) throws IOException {
    checkpoints.process(counter.pid()).suspend();
    JournalFiles.controllerDies(state());
    CheckpointedProcess taken = (CheckpointedProcess) checkpoints.inspect(counter.pid());
    LockedProcess locked = taken.restore();
    assertEquals(RecoveryOutcome.IN_USE, recoverOne().outcome());
    locked.unlock();
    assertEquals(101, counter.increment());
  }

  @Test
  void recoveriesAtTheSameTimeWaitForEachOther(Counter counter) throws Exception {
    checkpoints.process(counter.pid()).lock();
    JournalFiles.controllerDies(state());
    List<CompletableFuture<List<Recovered>>> both =
        Stream.generate(() -> CompletableFuture.supplyAsync(checkpoints::recover))
            .limit(2)
            .toList();
    assertEquals(
        List.of(RecoveryOutcome.UNLOCKED),
        both.stream().flatMap(each -> each.join().stream()).map(Recovered::outcome).toList());
    assertEquals(101, counter.increment());
  }

  @Test
  void processThatEndedIsForgotten() throws IOException {
    Counter counter = Counter.start(machine);
    checkpoints.process(counter.pid()).suspend();
    counter.close();
    assertTrue(counter.awaitExit(Duration.ofSeconds(30)));
    JournalFiles.controllerDies(state());
    assertEquals(RecoveryOutcome.GONE, recoverOne().outcome());
    assertEquals(List.of(), checkpoints.recover());
  }

  @Test
  @RequiresRoot("mounts a tmpfs")
  void entryOfAHalfImageStaysUntilThatIsRemoved(@TempDir Path images) throws IOException {
    DirectoryMaker self = DirectoryMaker.current();
    ProcessIdentity dead = new ProcessIdentity(self.process().pid(), 1);
    StagingName name =
        new StagingName(new DirectoryMaker(self.boot(), self.namespace(), dead), self.process());
    Path half = images.resolve(name.text());
    // What is mounted there cannot be removed.
    try (TmpFs mounted = TmpFs.mount(Files.createDirectories(half.resolve("images")), "size=1m")) {
      ImageEntry left =
          new Journal(new StateDirectory(state()))
              .writeImage(dead.pid(), images.resolve("job"), state().resolve("log"));
      JournalFiles.controllerDies(state());
      assertEquals(List.of(), checkpoints.recover(), mounted.point()::toString);
      assertEquals(1, JournalFiles.in(state()).size(), left::toString);
    }
    assertEquals(List.of(), checkpoints.recover());
    assertFalse(Files.exists(half));
    assertEquals(0, JournalFiles.in(state()).size());
  }

  /** As without a free descriptor: the state directory cannot be read. */
  @Test
  void entryOfAnImageThatCannotBeRemovedIsRemovedLater(@TempDir Path images) throws IOException {
    ImageEntry written =
        new Journal(new StateDirectory(state()))
            .writeImage(4242, images.resolve("job"), state().resolve("log"));
    Files.setPosixFilePermissions(state(), PosixFilePermissions.fromString("rwxrwxrwx"));
    written.close();
    Files.setPosixFilePermissions(state(), PosixFilePermissions.fromString("rwx------"));
    await().atMost(30, SECONDS).until(() -> JournalFiles.in(state()).size() == 0);
  }
}
