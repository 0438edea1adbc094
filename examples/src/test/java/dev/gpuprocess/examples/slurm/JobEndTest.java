package dev.gpuprocess.examples.slurm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.PoisonedProcessException;
import dev.gpuprocess.contract.FailingCriu;
import dev.gpuprocess.criu.RpcCriuDriver;
import dev.gpuprocess.error.Fate;
import dev.gpuprocess.error.RetryLaterException;
import dev.gpuprocess.error.StaleStateException;
import dev.gpuprocess.examples.demo.Await;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.Signal;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.report.StepListener;
import dev.gpuprocess.spi.CriuDriver;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Jobs whose command has ended, or is ended by Slurm or CRIU. */
class JobEndTest extends JobRunCase {

  private static final int OUT_OF_MEMORY = 2;

  @Test
  void cancelledJobEndsWithAllItsProcesses(GpuCheckpoints machine, SimulatedDriver driver)
      throws Exception {
    Counter counter = launched(machine, driver);
    controller.job("COMPLETING", 0);
    first().events().signalled("TERM");
    assertEquals(143, first().await(), log::toString);
    assertFalse(counter.isAlive());
    assertEquals(List.of(), store(machine).list());
    assertEquals(List.of(), changes());
  }

  @Test
  void jobThatWasRequeuedWithoutASignalIsDumpedOnSigterm(
      GpuCheckpoints machine, SimulatedDriver driver) throws Exception {
    Counter counter = launched(machine, driver);
    controller.job("COMPLETING", 1);
    first().events().signalled("TERM");
    assertEquals(JobRun.REQUEUED, first().await(), log::toString);
    assertFalse(counter.isAlive());
    assertEquals(1, store(machine).list().size());
    assertEquals(List.of(), changes(), "Slurm has requeued it already");
  }

  /** The job may be requeued, and then an image is all that is left of it. */
  @ParameterizedTest
  @CsvSource({
    "COMPLETING, None, 75, ''", // cancelled
    "RUNNING, None, 143, ''", // a user's signal
    "RUNNING, 2026-11-26T09:30:00, 75, requeue Incomplete 17",
    "TIMEOUT, None, 75, requeue 17"
  })
  void sigtermWithoutAnAnswerOfTheControllerLeavesAnImage(
      String state, String preempted, int code, String change, GpuCheckpoints machine)
      throws Exception {
    Run run = launchedSleep(machine);
    controller.loseAnswers();
    run.events().signalled("TERM");
    assertTrue(Await.until(PATIENCE, () -> isLogged("does not answer")), log::toString);
    assertEquals(1, store(machine).list().size(), log::toString);
    assertEquals(List.of(), changes(), log::toString);
    controller.job(state, 0, "Requeue=1 PreemptTime=" + preempted);
    assertEquals(code, run.await(), log::toString);
    assertEquals(change.isEmpty() ? List.of() : List.of(change), changes(), log::toString);
  }

  /** Slurm announces a preemption in this way to tasks without a signal of their own. */
  @Test
  void sigtermAtTheBeginOfTheGraceIsAPreemption(GpuCheckpoints machine) throws Exception {
    Run run = launchedSleep(machine);
    controller.job("RUNNING", 0, "Requeue=1 PreemptTime=2026-11-26T09:30:00");
    run.events().signalled("TERM");
    assertEquals(JobRun.REQUEUED, ended(run, 0), log::toString);
    assertEquals(List.of(REQUEUE), changes(), log::toString);
    assertEquals(1, store(machine).list().size(), log::toString);
  }

  /** As with {@code proctrack/linuxproc}, which signals all processes of a task. */
  @Test
  void endByTheSignalOfAPreemptionIsNotThatOfTheCommand(GpuCheckpoints machine) throws Exception {
    Run run = launchedSleep(machine);
    controller.job("RUNNING", 0, "Requeue=1 PreemptTime=2026-11-26T09:30:00");
    assertRequeuedAfter("TERM", run);
  }

  /** Without a snapshot the next run would reach its time limit at the same place. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void jobThatCannotBeDumpedAtItsTimeLimitContinuesFromASnapshot(
      boolean hasSnapshot, GpuCheckpoints machine, SimulatedDriver driver) throws Exception {
    Counter counter =
        hasSnapshot ? launchedAndSnapshotted(machine, driver) : launched(machine, driver);
    counter.allocateManaged(); // the driver does not checkpoint this
    controller.job("TIMEOUT", 0);
    first().events().signalled("TERM");
    assertEquals(hasSnapshot ? JobRun.REQUEUED : 143, first().await(), log::toString);
    assertEquals(hasSnapshot ? List.of("requeue 17") : List.of(), changes(), log::toString);
    assertFalse(counter.isAlive());
  }

  @Test
  void sigtermWithoutAnAnswerLeavesACommandThatCannotBeDumpedToSlurm(
      GpuCheckpoints machine, SimulatedDriver driver) throws Exception {
    Counter counter = launched(machine, driver);
    counter.allocateManaged(); // the driver does not checkpoint this
    controller.loseAnswers();
    first().events().signalled("TERM");
    assertTrue(Await.until(PATIENCE, () -> isLogged("is left to Slurm")), log::toString);
    assertEquals(101, counter.increment());
    endCounter(counter);
    assertEquals(CODE, first().await(), log::toString);
    assertFalse(Files.exists(finished()));
  }

  /** Slurm would start it again. */
  @Test
  void jobThatIsCancelledDuringItsDumpIsNotRequeued(GpuCheckpoints machine) throws Exception {
    Run run = launchedSleep(machine);
    controller.job("COMPLETING", 0);
    run.events().signalled("USR1");
    run.events().signalled("TERM");
    assertEquals(JobRun.REQUEUED, run.await(), log::toString);
    assertEquals(List.of(), changes(), log::toString);
    assertEquals(1, store(machine).list().size(), log::toString);
  }

  @Test
  void timeLimitThatIsKnownAfterAFailedDumpContinuesFromASnapshot(
      GpuCheckpoints machine, SimulatedDriver driver) throws Exception {
    Counter counter = launchedAndSnapshotted(machine, driver);
    counter.allocateManaged(); // the driver does not checkpoint this
    controller.loseAnswers();
    first().events().signalled("TERM");
    assertRequeuedAtItsLimit(first());
    assertFalse(counter.isAlive());
  }

  @Test
  void timeLimitThatIsKnownAfterTheEndContinuesFromASnapshot(GpuCheckpoints machine)
      throws Exception {
    every = Duration.ofMillis(200);
    Run run = launchedSleep(machine);
    awaitSnapshot();
    controller.loseAnswers();
    Signal.send("TERM", launchedPid());
    assertRequeuedAtItsLimit(run);
  }

  private Counter launchedAndSnapshotted(GpuCheckpoints machine, SimulatedDriver driver) {
    every = Duration.ofMillis(200);
    Counter counter = launched(machine, driver);
    awaitSnapshot();
    return counter;
  }

  private void awaitSnapshot() {
    assertTrue(
        Await.until(PATIENCE, () -> log.stream().anyMatch(line -> line.startsWith("snapshot "))),
        log::toString);
  }

  private void assertRequeuedAtItsLimit(Run run) throws Exception {
    assertTrue(Await.until(PATIENCE, () -> isLogged("does not answer")), log::toString);
    controller.job("TIMEOUT", 0);
    assertEquals(JobRun.REQUEUED, run.await(), log::toString);
    assertEquals(List.of("requeue 17"), changes(), log::toString);
    assertFalse(Files.exists(finished()), log::toString);
  }

  /** The snapshot is made durable when the grace is over, and the command is in it then. */
  @Test
  void snapshotThatBecomesTheDumpAfterTheGraceIsRequeued(
      GpuCheckpoints machine, SimulatedDriver driver) throws Exception {
    every = Duration.ofMillis(200);
    grace = Duration.ofSeconds(20);
    AtomicBoolean isPreempted = new AtomicBoolean();
    GpuCheckpoints slow =
        at(
            machine,
            Map.of(
                "dump",
                () -> {
                  if (isPreempted.compareAndSet(false, true)) {
                    first().events().signalled("USR1");
                    assertTrue(Await.until(PATIENCE, JobEndTest::isWaitedFor), log::toString);
                  }
                },
                "seal",
                () -> assertTrue(Await.until(PATIENCE, () -> isLogged("no dump")), log::toString)));
    Counter counter = launched(slow, driver);
    assertRequeued(first());
    assertFalse(counter.isAlive());
    assertEquals(1, store(machine).list().size(), log::toString);
  }

  /** Whether the snapshot under way is to become the dump. */
  private static boolean isWaitedFor() {
    return Thread.getAllStackTraces().values().stream()
        .flatMap(Arrays::stream)
        .anyMatch(
            frame ->
                frame.getClassName().endsWith(".Repetition")
                    && frame.getMethodName().equals("awaitEnd"));
  }

  private static GpuCheckpoints at(GpuCheckpoints machine, Map<String, Runnable> actions) {
    StepListener listener =
        new StepListener() {
          @Override
          public void started(String name, int pid) {
            actions.getOrDefault(name, () -> {}).run();
          }
        };
    return machine.toBuilder().listener(listener).build();
  }

  /** Another process took the memory, and the driver refuses the command from then on. */
  @Test
  void commandWhoseGpuMemoryIsLostContinuesFromItsImage(
      GpuCheckpoints machine, SimulatedDriver driver) throws Exception {
    every = Duration.ofMillis(200);
    Fault lost = Fault.in("cuCheckpointProcessRestore").answers(OUT_OF_MEMORY);
    AtomicBoolean isTaken = new AtomicBoolean();
    Runnable take =
        () -> {
          if (isTaken.get()) {
            driver.faults(lost);
          }
        };
    Counter counter = launched(at(machine, Map.of("restore", take)), driver);
    assertEquals(101, counter.increment());
    Path member = Path.of("/proc/" + member(counter));
    isTaken.set(true);
    assertRequeued(first());
    assertFalse(counter.isAlive());
    driver.clearFaults();
    assertTrue(Await.until(PATIENCE, () -> !Files.exists(member)), "is reaped, and its pid free");

    every = null;
    assertContinues(machine, 1, counter, 102);
  }

  /** It is lost without a part of this run. */
  @Test
  void commandThatAUserCouldNotResumeContinuesFromItsImage(
      GpuCheckpoints machine, SimulatedDriver driver) throws Exception {
    Counter counter = launchedAndSnapshotted(machine, driver);
    CheckpointedProcess suspended = suspended(machine, counter);
    driver.faults(Fault.in("cuCheckpointProcessRestore").answers(OUT_OF_MEMORY));
    assertThrows(PoisonedProcessException.class, suspended::resume);
    assertRequeued(first());
    assertFalse(counter.isAlive());
  }

  /** Suspends it between two snapshots. */
  private CheckpointedProcess suspended(GpuCheckpoints machine, Counter counter) {
    AtomicReference<CheckpointedProcess> suspended = new AtomicReference<>();
    assertTrue(
        Await.until(
            PATIENCE,
            () -> {
              try {
                suspended.set(machine.suspend(counter.pid()));
                return true;
              } catch (RetryLaterException | StaleStateException busy) {
                return false;
              }
            }),
        log::toString);
    return suspended.get();
  }

  @Test
  void imageIsTheDumpToo_ifCriuEndsTheOnlyCudaProcessInASnapshot(
      GpuCheckpoints machine, SimulatedDriver driver) throws Exception {
    every = Duration.ofMillis(200);
    Counter counter =
        launched(machine.toBuilder().criu(uncertainCriu(this::killTree)).build(), driver);
    assertRequeued(first());
    assertFalse(counter.isAlive());
  }

  private void killTree() {
    ProcessHandle root = ProcessHandle.of(launchedPid()).orElseThrow();
    List<ProcessHandle> tree = Stream.concat(Stream.of(root), root.descendants()).toList();
    tree.forEach(each -> Signal.send("KILL", each.pid()));
    assertTrue(Await.until(PATIENCE, () -> tree.stream().noneMatch(ProcessHandle::isAlive)));
  }

  /** Returns a CRIU that fails, in a dump of the command, when it is allowed to kill. */
  private CriuDriver uncertainCriu(Runnable end) {
    return FailingCriu.whenItMayKill(
        new RpcCriuDriver(),
        pid -> pid == launchedPid(),
        pid -> {
          end.run();
          return FailingCriu.failure(pid, Fate.UNKNOWN);
        });
  }

  /** The process is killed late by the CRIU that has failed, so its image is all that is left. */
  @Test
  void imageThatIsCompleteIsTheDumpIfTheCommandIsKilledLate(GpuCheckpoints machine)
      throws Exception {
    Run run = dumpedByUncertainCriu(machine);
    assertRequeuedAfter("KILL", run);
    assertEquals(1, store(machine).list().size(), log::toString);
  }

  /** Slurm kills the job soon after its SIGTERM, which may be before the end of the grace. */
  @Test
  void timeLimitEndsTheWaitForALateKill(GpuCheckpoints machine) throws Exception {
    grace = Duration.ofDays(1);
    controller.config("KillWait                = 5 sec\n");
    Run run = dumpedByUncertainCriu(machine);
    controller.job("TIMEOUT", 0);
    run.events().signalled("TERM");
    assertEquals(JobRun.REQUEUED, run.await(), log::toString);
    assertEquals(Set.of("requeue 17"), Set.copyOf(changes()), log::toString);
  }

  @Test
  void imageIsTheDumpToo_ifTheCommandIsKilledAfterTheGrace(GpuCheckpoints machine)
      throws Exception {
    grace = Duration.ofSeconds(30);
    Run run = dumpedByUncertainCriu(machine);
    assertTrue(Await.until(PATIENCE, () -> isLogged("continues")), log::toString);
    assertRequeuedAfter("KILL", run);
  }

  @Test
  void imageIsTheDumpToo_ifASnapshotHasEndedTheCommand(GpuCheckpoints machine) throws Exception {
    assertRequeuedAfter("KILL", snapshotByUncertainCriu(machine));
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void endIsThatOfTheCommandIfTheFailedCriuHasNotKilledIt(
      boolean isSnapshot, GpuCheckpoints machine) throws Exception {
    Run run = isSnapshot ? snapshotByUncertainCriu(machine) : dumpedByUncertainCriu(machine);
    Signal.send("TERM", launchedPid());
    assertEquals(143, run.await(), log::toString);
    assertEquals(List.of(), changes(), log::toString);
    assertEquals("143", Files.readString(finished()));
  }

  private Run snapshotByUncertainCriu(GpuCheckpoints machine) throws Exception {
    every = Duration.ofSeconds(8); // the next one does not come between
    Run run = launchedSleep(machine.toBuilder().criu(uncertainCriu(() -> {})).build());
    assertTrue(Await.until(PATIENCE, () -> isLogged("a snapshot failed")), log::toString);
    return run;
  }

  private Run dumpedByUncertainCriu(GpuCheckpoints machine) throws Exception {
    GpuCheckpoints failing = machine.toBuilder().criu(uncertainCriu(() -> {})).build();
    Run run = launchedSleep(failing);
    run.events().signalled("USR1");
    assertTrue(
        Await.until(PATIENCE, () -> isLogged("unknown whether the process is still alive")),
        log::toString);
    return run;
  }
}
