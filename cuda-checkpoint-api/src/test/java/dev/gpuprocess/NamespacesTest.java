package dev.gpuprocess;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.gpuprocess.contract.JournalFiles;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.reservation.Reservations;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.internal.state.JournalEntry;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.RecoveryOutcome;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/**
 * A host and a container with one state directory: in the container every process has another pid.
 */
@OutsideUse("A9")
@SimulatedGpu
class NamespacesTest {

  private static final Duration PATIENCE = Duration.ofSeconds(30);

  private SimulatedDriver machine;
  private GpuCheckpoints checkpoints;
  private RemoteController container;

  @BeforeEach
  void start(SimulatedDriver machine, GpuCheckpoints checkpoints)
      throws IOException, InterruptedException {
    assumeTrue(
        new ProcessBuilder("unshare", "--pid", "--fork", "--mount-proc", "true").start().waitFor()
            == 0,
        "no pid namespace can be made here");
    this.machine = machine;
    this.checkpoints = checkpoints;
    container = RemoteController.inNamespace(machine, machine.stateDirectory());
  }

  @AfterEach
  void end() {
    if (container != null) {
      container.close();
    }
  }

  @Test
  void recover_inAContainer_leavesTheHostsProcessesToTheHost(Counter counter) throws IOException {
    CheckpointedProcess left = checkpoints.process(counter.pid()).suspend();
    assertEquals("[IN_USE]", container.say("recover", 0));
    JournalFiles.controllerDies(machine.stateDirectory());
    assertEquals("[IN_USE]", container.say("recover", 0), "whose host could tell that?");
    assertEquals(1, JournalFiles.in(machine.stateDirectory()).size());
    Recovered found = checkpoints.recover().get(0);
    assertEquals(RecoveryOutcome.SUSPENDED, found.outcome());
    found.suspended().resume();
    assertEquals(101, counter.increment(), left::toString);
  }

  @Test
  void process_inAContainer_isTheSameFromBothSides() throws IOException {
    ProcessIdentity seen = container.identity();
    String key = container.say("key", 1);
    assertEquals(key, ProcessKey.of(seen).text());
    assertEquals(key, container.say("self", 0));
    assertNotEquals(seen.pid(), ProcessKey.parse(key).pid());
    assertFalse(ProcessKey.parse(key).hasEnded());
  }

  @Test
  void turn_takenInAContainer_isNotToBeHadOnTheHost() throws IOException {
    assertEquals("done", container.say("take", 1));
    ProcessIdentity seen = container.identity();
    OperationInProgressException refused =
        assertThrows(
            OperationInProgressException.class,
            () ->
                ProcessLock.take(
                    ProcessKey.of(seen),
                    seen.pid(),
                    "lock",
                    ProcessLock.Kind.MOVE,
                    checkpoints.context().state(),
                    Duration.ZERO));
    assertTrue(refused.getMessage().contains("another pid namespace"), refused.getMessage());
  }

  @Test
  void entry_writtenInAContainer_isFoundUnderItsPidHereUntilItEnds() throws IOException {
    assertEquals("done", container.say("write", 1));
    ProcessIdentity seen = container.identity();
    JournalEntry entry = new Journal(checkpoints.context().state()).entries().get(0);
    assertEquals(1, entry.pid());
    assertEquals(seen, entry.find().process().orElseThrow());
    assertTrue(entry.hasLiveController());
    assertEquals(
        List.of(RecoveryOutcome.IN_USE),
        checkpoints.recover().stream().map(Recovered::outcome).toList());
    container.close();
    await().atMost(20, SECONDS).until(() -> !seen.isAlive());
    ProcessKey nobody = new ProcessKey(1, 1, 1);
    assumeTrue(nobody.hasEnded(), "in a container it is not certain who has ended elsewhere");
    assertFalse(entry.hasLiveController());
    assertEquals(
        List.of(RecoveryOutcome.GONE),
        checkpoints.recover().stream().map(Recovered::outcome).toList());
    assertEquals(List.of(), JournalFiles.in(machine.stateDirectory()));
    assertEquals(List.of("recovery"), checkpoints.context().state().lockNames());
  }

  /** The driver completes the restore of a dead controller, in whichever namespace that was. */
  @Test
  @OutsideUse("A4")
  void reservation_forAProcessInAContainer_isKeptUntilItsRestoreIsOver() throws IOException {
    ProcessIdentity seen = container.identity();
    assertEquals("done", container.say("reserve", 1));
    AtomicReference<ProcessIdentity> asked = new AtomicReference<>();
    AtomicBoolean over = new AtomicBoolean();
    Reservations here =
        new Reservations(
            checkpoints.context().state(),
            Duration.ZERO,
            process -> {
              asked.set(process);
              return over.get();
            });
    assertEquals(1, here.<Integer>alone(1, PATIENCE, List::size).intValue());
    assertEquals(seen, asked.get());
    over.set(true);
    assertEquals(0, here.<Integer>alone(1, PATIENCE, List::size).intValue());
  }

  @Test
  @OutsideUse("A4")
  void reservation_forAProcessThatCannotBeSeen_isKeptAsLongAsARestoreCanTake() throws IOException {
    RemoteController.reserve(checkpoints, ProcessHandle.current().pid());
    assertEquals("1", container.say("reserved", 3600));
    assertEquals("0", container.say("reserved", 0));
    assertEquals(
        List.of(),
        checkpoints.context().state().lockNames().stream()
            .filter(name -> name.startsWith("room-"))
            .toList());
  }

  @Test
  void entry_ofAnEarlierBoot_isForgottenWhoeverHasThePid(Counter counter) throws IOException {
    LockedProcess locked = checkpoints.process(counter.pid()).lock();
    Path entry = JournalFiles.in(machine.stateDirectory()).get(0);
    String text = Files.readString(entry);
    Files.writeString(entry, text.replaceAll("boot=.*", "boot=another"));
    assertEquals(
        List.of(RecoveryOutcome.GONE),
        checkpoints.recover().stream().map(Recovered::outcome).toList());
    assertEquals(List.of(), JournalFiles.in(machine.stateDirectory()));
    locked.unlock();
    assertEquals(101, counter.increment());
  }
}
