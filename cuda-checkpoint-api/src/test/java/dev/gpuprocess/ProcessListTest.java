package dev.gpuprocess;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.JournalFiles;
import dev.gpuprocess.contract.NativeCalls;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.Signal;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.fixtures.Workload;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.options.Timeouts;
import dev.gpuprocess.report.ListedProcess;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.SuspendedProcess;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** The list of the processes of a machine; listing changes nothing. */
@SimulatedGpu
@Tag("slow")
record ProcessListTest(SimulatedDriver machine, GpuCheckpoints checkpoints) {

  ProcessListTest {
    checkpoints = within(checkpoints, Duration.ofSeconds(30));
  }

  private static GpuCheckpoints within(GpuCheckpoints checkpoints, Duration call) {
    return checkpoints.toBuilder().timeouts(Timeouts.builder().call(call).build()).build();
  }

  private static ListedProcess only(List<ListedProcess> all, long pid) {
    List<ListedProcess> found = all.stream().filter(each -> each.pid() == pid).toList();
    assertEquals(1, found.size(), all::toString);
    return found.get(0);
  }

  private ListedProcess listed(long pid) {
    return only(checkpoints.processes(), pid);
  }

  private Map<Path, String> stateFiles() throws IOException {
    Map<Path, String> files = new TreeMap<>();
    try (Stream<Path> all = Files.walk(machine.stateDirectory())) {
      for (Path file : all.filter(Files::isRegularFile).toList()) {
        files.put(file, Files.readString(file));
      }
    }
    return files;
  }

  @BeforeEach
  void awaitEarlierTests() {
    NativeCalls.awaitNoneLeftBehind();
  }

  @Test
  void eachStateIsListed_theSuspendedOneToo() {
    Instant before = Instant.now().minusMillis(1);
    try (Counter running = Counter.start(machine);
        Counter suspended = Counter.start(machine);
        Workload idle = Workload.idle();
        Counter locked = Counter.start(machine);
        CheckpointedProcess parked = checkpoints.process(suspended.pid()).suspend();
        LockedProcess held = checkpoints.process(locked.pid()).lock()) {
      List<ListedProcess> all = checkpoints.processes();

      ListedProcess one = only(all, running.pid());
      assertEquals(ProcessState.RUNNING, one.state());
      assertEquals("", one.note());
      assertEquals(System.getProperty("user.name"), one.owner());
      assertEquals(ProcFs.commandLine(running.pid()), one.command());
      assertTrue(one.gpuBytesKnown());
      assertTrue(
          one.gpuBytes().values().stream().allMatch(bytes -> bytes > 1 << 20), all::toString);
      assertEquals(1, one.gpuBytes().size());
      assertNull(one.suspended());

      ListedProcess off = only(all, suspended.pid());
      assertEquals(parked.identity(), off.identity());
      assertEquals(ProcessState.CHECKPOINTED, off.state());
      assertEquals(one.gpuBytes(), off.gpuBytes(), "what it held");
      SuspendedProcess how = off.suspended();
      assertEquals(ProcessHandle.current().pid(), how.controller());
      assertTrue(how.controllerAlive());
      assertEquals(System.getProperty("user.name"), how.user());
      assertEquals("checkpointed", how.step());
      assertFalse(how.since().isBefore(before), how::toString);
      assertFalse(how.since().isAfter(Instant.now()), how::toString);
      assertFalse(how.poisoned());

      ListedProcess waiting = only(all, locked.pid());
      assertEquals(held.identity(), waiting.identity());
      assertEquals(ProcessState.LOCKED, waiting.state());
      assertEquals("locked", waiting.suspended().step());

      assertTrue(all.stream().noneMatch(each -> each.pid() == idle.pid()), all::toString);
      List<Integer> pids = all.stream().map(ListedProcess::pid).toList();
      assertEquals(pids.stream().sorted().toList(), pids);
    }
  }

  @Test
  void sinceIsTheTimeOfTheSuspend_notOfTheLastStep(Counter counter) {
    LockedProcess locked = checkpoints.process(counter.pid()).lock();
    Instant since = checkpoints.suspended().get(0).since();
    assertNotNull(since);
    CheckpointedProcess suspended = locked.checkpoint();
    assertEquals(since, checkpoints.suspended().get(0).since());
    suspended.resume();
    assertEquals(List.of(), checkpoints.suspended());
    Instant between = Instant.now().minusMillis(1);
    try (LockedProcess again = checkpoints.process(counter.pid()).lock()) {
      assertEquals(ProcessState.LOCKED, again.state());
      assertFalse(checkpoints.suspended().get(0).since().isBefore(between));
    }
  }

  @Test
  void listingActsOnNothing_alsoWhenTheControllerHasDied(Counter counter) throws IOException {
    LockedProcess locked = checkpoints.process(counter.pid()).lock();
    JournalFiles.controllerDies(machine.stateDirectory());
    Map<Path, String> before = stateFiles();
    SuspendedProcess found = checkpoints.toBuilder().build().suspended().get(0);
    assertEquals(locked.identity(), found.process());
    assertFalse(found.controllerAlive());
    assertTrue(found.toString().contains("which has ended"), found::toString);
    assertEquals(ProcessState.LOCKED, listed(counter.pid()).state());
    assertEquals(before, stateFiles());
    locked.unlock();
    assertEquals(101, counter.increment());
  }

  @Test
  void stoppedProcessIsListedAndTheDriverIsNotAsked() throws Exception {
    try (Counter stopped = Counter.start(machine);
        Counter other = Counter.start(machine)) {
      Signal.send("STOP", stopped.pid());
      await().atMost(30, SECONDS).until(() -> ProcFs.stat(stopped.pid()).orElseThrow().isStopped());
      int abandoned = GpuCheckpoints.abandonedCalls();
      List<ListedProcess> all = checkpoints.processes();
      Signal.send("CONT", stopped.pid());
      ListedProcess found = only(all, stopped.pid());
      assertNull(found.state());
      assertEquals("it is stopped", found.note());
      assertTrue(found.gpuBytesKnown(), "NVML answers");
      assertEquals(ProcessState.RUNNING, only(all, other.pid()).state());
      assertEquals(abandoned, GpuCheckpoints.abandonedCalls());
      assertEquals(101, stopped.increment());
    }
  }

  @Test
  void processThatTheDriverDoesNotAnswerAboutIsListedInTime() {
    GpuCheckpoints hasty = within(checkpoints, Duration.ofSeconds(10));
    try (Counter silent = Counter.start(machine);
        Counter other = Counter.start(machine)) {
      machine.faults(Fault.in("cuCheckpointProcessGetState").pid(silent.pid()).hangs());
      List<ListedProcess> all = hasty.processes();
      machine.clearFaults();
      assertNull(only(all, silent.pid()).state());
      assertEquals("the driver did not answer within 10 s", only(all, silent.pid()).note());
      assertEquals(ProcessState.RUNNING, only(all, other.pid()).state());
      await().atMost(30, SECONDS).until(() -> GpuCheckpoints.abandonedCalls() == 0);
    }
  }

  @Test
  void processThatAVerbMovesIsListedAtOnceWithTheVerb(Counter counter) throws IOException {
    machine.faults(Fault.in("cuCheckpointProcessLock").pid(counter.pid()).hangs());
    try (OtherController other =
        OtherController.locking(machine, machine.stateDirectory(), counter.pid())) {
      ListedProcess found = listed(counter.pid());
      assertNull(found.state());
      assertTrue(found.note().contains("pid " + other.pid()), found::toString);
      assertTrue(found.note().contains("lock"), found::toString);
    } finally {
      machine.clearFaults();
    }
  }

  @Test
  void poisonedProcessIsListedAsSuch(Counter counter) {
    CheckpointedProcess suspended = checkpoints.process(counter.pid()).suspend();
    machine.faults(Fault.in("cuCheckpointProcessRestore").answers(2));
    assertThrows(PoisonedProcessException.class, suspended::resume);
    assertTrue(listed(counter.pid()).suspended().poisoned());
    assertTrue(listed(counter.pid()).toString().contains("poisoned"));
  }

  @Test
  void journalThatCannotBeReadIsAnError_exceptForThoseThatTheDriverTellsOf(Counter counter)
      throws IOException {
    Path file = Files.createFile(machine.directory().resolve("file"));
    GpuCheckpoints without = checkpoints.toBuilder().stateDirectory(file).build();
    assertReason(
        FixAndRetryException.class,
        FixAndRetryException.Reason.STATE_DIRECTORY,
        without::suspended);
    assertEquals(ProcessState.RUNNING, only(without.processes(), counter.pid()).state());
  }

  @Test
  void machineWithoutDriverListsWhatTheJournalHas(Counter counter) throws IOException {
    CheckpointedProcess suspended = checkpoints.process(counter.pid()).suspend();
    Path empty = Files.createDirectory(machine.directory().resolve("empty"));
    GpuCheckpoints without = checkpoints.toBuilder().cuda(empty).build();
    ListedProcess found = only(without.processes(), counter.pid());
    assertNull(found.state());
    assertTrue(found.note().contains("libcuda"), found::toString);
    assertEquals("checkpointed", found.suspended().step());
    suspended.resume();
  }

  @Test
  void lineOfAProcessSaysAll() {
    ProcessIdentity identity = new ProcessIdentity(44, 1000);
    SuspendedProcess how =
        new SuspendedProcess(
            identity,
            "checkpointed",
            12,
            false,
            "root",
            Instant.ofEpochSecond(0),
            Map.of(),
            false,
            new ProcessIdentity(40, 900),
            "train-7");
    assertEquals(
        "44 alice CHECKPOINTED, unknown GPU memory, python train.py; checkpointed, away since"
            + " 1970-01-01T00:00:00Z by process 12 of root, which has ended, with process 40, labelled"
            + " train-7",
        new ListedProcess(
                identity,
                "alice",
                List.of("python", "train.py"),
                ProcessState.CHECKPOINTED,
                "",
                Map.of(),
                false,
                how)
            .toString());
  }
}
