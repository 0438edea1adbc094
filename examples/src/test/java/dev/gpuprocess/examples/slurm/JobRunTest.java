package dev.gpuprocess.examples.slurm;

import static java.nio.file.attribute.PosixFilePermission.OWNER_EXECUTE;
import static java.nio.file.attribute.PosixFilePermission.OWNER_READ;
import static java.nio.file.attribute.PosixFilePermission.OWNER_WRITE;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.contract.TmpFs;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.examples.demo.Await;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Signal;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.report.Finding;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A job that is preempted, requeued and continued. */
class JobRunTest extends JobRunCase {

  @Test
  void preemptedJobContinuesAndReturnsItsExitCode(GpuCheckpoints machine, SimulatedDriver driver)
      throws Exception {
    Counter counter = launched(machine, driver);
    assertEquals(101, counter.increment());
    assertEquals(JobRun.REQUEUED, preempt(), log::toString);
    assertEquals(List.of(REQUEUE), changes());
    assertFalse(counter.isAlive());

    Run second = restored(machine, 1);
    assertTrue(Await.until(PATIENCE, this::isRestored), log::toString);
    assertEquals(102, counter.increment());
    assertTrue(counter.verify().startsWith("ok "), counter::verify);
    endCounter(counter);
    assertEquals(CODE, second.await(), log::toString);
    assertEquals(List.of(), store(machine).list(), log::toString);
    assertLogged("1 images are removed; --keep-images keeps them");

    // Requeued by hand after its end.
    assertEquals(CODE, restored(machine, 2).await());
    assertLogged("has ended before, with 7");
  }

  /** As with a full disk of temporary files, which must not hide that the job is requeued. */
  @Test
  void answersOfTheControllerNeedNoTemporaryFiles(SimulatedDriver driver) throws Exception {
    Path output = directory.resolve("output");
    Path images = directory.resolve("images");
    Process jvm =
        new ProcessBuilder(
                TestJvm.command(
                    List.of("-Djava.io.tmpdir=" + directory.resolve("none")),
                    JobJvm.class,
                    "run",
                    images.toString(),
                    driver.directory().toString(),
                    driver.stateDirectory().toString(),
                    controller.program().toString()))
            .redirectErrorStream(true)
            .redirectOutput(output.toFile())
            .start();
    try {
      assertTrue(Await.until(PATIENCE, () -> text(output).contains("launched process")));
      controller.job("COMPLETING", 1);
      Signal.send("TERM", jvm.pid());
      assertTrue(jvm.waitFor(PATIENCE.toSeconds(), TimeUnit.SECONDS), () -> text(output));
      assertEquals(JobRun.REQUEUED, jvm.exitValue(), () -> text(output));
      assertTrue(text(output).contains("the job is COMPLETING, requeued"), () -> text(output));
    } finally {
      TestJvm.end(jvm);
    }
  }

  private static String text(Path file) {
    try {
      return Files.readString(file);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** As on a full disk. */
  @Test
  void exitCodeIsThatOfTheCommandIfItsEndCannotBeRecorded(GpuCheckpoints machine) throws Exception {
    Path blocked = directory.resolve("images/lab-17/finished.new/not-empty");
    Run run = run(machine, 0, List.of("sh", "-c", "mkdir -p \"$0\"; exit 3", blocked.toString()));
    assertEquals(3, run.await(), log::toString);
    assertLogged("its end is not recorded");
  }

  @Test
  void requeuesWithoutANodeThatCannotBeRecorded_andContinues(
      GpuCheckpoints machine, SimulatedDriver driver) throws Exception {
    Counter counter = launched(machine, driver);
    assertEquals(JobRun.REQUEUED, preempt(), log::toString);
    Files.createDirectories(directory.resolve("images/lab-17/failed-nodes/not-empty"));
    try (SimulatedDriver other = SimulatedDriver.builder().driverVersion(12090).create()) {
      GpuCheckpoints unfit = machine.toBuilder().cuda(other.directory()).build();
      Run second = restored(unfit, 1);
      assertTrue(Await.until(PATIENCE, () -> changes().size() == 3), log::toString);
      second.events().signalled("TERM");
      assertEquals(JobRun.REQUEUED, second.await(), log::toString);
      assertEquals("update JobId=17 ExcNodeList=node2", changes().get(2));
    }
    assertLogged("the node is not recorded");
    Run third = restored(machine, 2);
    assertTrue(
        Await.until(PATIENCE, () -> isLogged("the failed restores are not forgotten")),
        log::toString);
    assertTrue(isRestored(), log::toString);
    endCounter(counter);
    assertEquals(CODE, third.await(), log::toString);
  }

  @Test
  void requeuesWithoutANodeThatCannotRestore_andGivesUpAtLast(
      GpuCheckpoints machine, SimulatedDriver driver) throws Exception {
    Counter counter = launched(machine, driver);
    assertEquals(JobRun.REQUEUED, preempt(), log::toString);
    try (SimulatedDriver other = SimulatedDriver.builder().driverVersion(12090).create()) {
      GpuCheckpoints unfit = machine.toBuilder().cuda(other.directory()).build();
      Run second = restored(unfit, 1);
      assertTrue(Await.until(PATIENCE, () -> changes().size() == 3), log::toString);
      second.events().signalled("TERM");
      assertEquals(JobRun.REQUEUED, second.await(), log::toString);
      assertEquals(List.of(REQUEUE, REQUEUE, "update JobId=17 ExcNodeList=node2"), changes());
      assertEquals(JobRun.NOT_RESTORED, restored(unfit, 2).await(), log::toString);
      assertLogged("the restore has failed 2 times, on node2, node3");
    }
    assertContinues(machine, 3, counter, 101);
  }

  @Test
  void usesAnOlderImageIfTheNewestIsBad_andStartsNothingIfAllAre(
      GpuCheckpoints machine, SimulatedDriver driver) throws Exception {
    Counter counter = launched(machine, driver);
    assertEquals(101, counter.increment());
    store(machine)
        .snapshot(machine.process(counter.pid()), DumpOptions.builder().label("lab-17").build());
    assertEquals(102, counter.increment());
    assertEquals(JobRun.REQUEUED, preempt(), log::toString);
    damage(store(machine).list().get(0).directory());

    Run second = restored(machine, 1);
    assertTrue(Await.until(PATIENCE, this::isRestored), log::toString);
    assertEquals(102, counter.increment(), "the older image has 101");
    assertLogged("skipped ");
    controller.job("COMPLETING", 1);
    second.events().signalled("TERM");
    assertEquals(143, second.await(), log::toString);

    damage(store(machine).list().get(1).directory());
    assertEquals(JobRun.NOT_RESTORED, restored(machine, 2).await(), log::toString);
    assertLogged("is not started again from its beginning");
    assertEquals(List.of(REQUEUE), changes());
  }

  private static void damage(Path image) throws IOException {
    try (Stream<Path> files = Files.walk(image)) {
      for (Path file : files.filter(each -> each.toString().endsWith(".img")).toList()) {
        try (RandomAccessFile content = new RandomAccessFile(file.toFile(), "rw")) {
          content.write(new byte[8]);
        }
      }
    }
  }

  @Test
  void commandContinuesIfTheJobCannotBeDumped(GpuCheckpoints machine, SimulatedDriver driver)
      throws Exception {
    Counter counter = launched(machine, driver);
    counter.allocateManaged(); // the driver does not checkpoint this
    first().events().signalled("USR1");
    assertTrue(Await.until(PATIENCE, () -> isLogged("continues")), log::toString);
    assertEquals(101, counter.increment());
    assertEquals(List.of(), changes());
    endCounter(counter);
    assertEquals(CODE, first().await(), log::toString);
  }

  /** A preemption leaves no time to start it in another way. */
  @Test
  void commandThatCannotBeDumpedIsNamedAtItsStart(GpuCheckpoints machine, SimulatedDriver driver)
      throws Exception {
    Counter counter = launched(machine, driver, "unshare --net sleep 1000 & ");
    assertTrue(
        Await.until(PATIENCE, () -> isLogged("the command cannot be dumped as it is now: ")),
        log::toString);
    assertLogged("namespace");
    ProcessHandle.of(counter.pid())
        .orElseThrow()
        .children()
        .forEach(child -> Signal.send("KILL", child.pid()));
    assertEquals(CODE, first().await(), log::toString);
  }

  @Test
  void preemptionThatWasAnnouncedBeforeTheRunIsNoticed(GpuCheckpoints machine) throws Exception {
    controller.job("RUNNING", 0, "Requeue=0 PreemptTime=2026-11-25T09:30:00");
    controller.refuseRequeue();
    Run run = begun(machine, 0, List.of("sleep", "1000"));
    assertEquals(JobRun.REQUEUED, run.await(), log::toString);
    assertEquals(1, store(machine).list().size());
    assertLogged("submit it with --requeue");
    assertLogged("is not requeued: Requested operation is presently disabled;");
    assertLogged("to continue it: gpuprocess restore-image --newest " + store(machine).directory());
  }

  @Test
  void jobWithoutRequeueIsAllowedToBeRequeuedOnceItsCommandIsInAnImage(GpuCheckpoints machine)
      throws Exception {
    controller.job("RUNNING", 0, "Requeue=0 PreemptTime=2026-11-25T09:30:00");
    Run run = begun(machine, 0, List.of("sleep", "1000"));
    assertTrue(Await.until(PATIENCE, () -> changes().contains(REQUEUE)), log::toString);
    run.events().signalled("TERM");
    assertEquals(JobRun.REQUEUED, run.await(), log::toString);
    assertEquals(List.of("update JobId=17 Requeue=1", REQUEUE), changes(), log::toString);
  }

  /** The command runs while its dump waits. */
  @Test
  void dumpWaitsForSpaceUntilTheEndOfTheGrace(GpuCheckpoints machine) throws Exception {
    Path all = Files.createDirectory(directory.resolve("images"));
    try (TmpFs small = TmpFs.mount(all, "size=8m,mode=700")) {
      keepsImages = true;
      Path filler = small.point().resolve("filler");
      Run run = launchedSleep(machine);
      Files.write(filler, new byte[(8 << 20) - (64 << 10)]);
      run.events().signalled("USR1");
      assertTrue(Await.until(PATIENCE, () -> isLogged("no dump: ")), log::toString);
      assertFalse(run.code().isDone(), log::toString);
      Files.delete(filler);
      assertTrue(Await.until(PATIENCE, () -> changes().contains(REQUEUE)), log::toString);
      run.events().signalled("TERM");
      assertEquals(JobRun.REQUEUED, run.await(), log::toString);
      assertEquals(1, store(machine).list().size());
      assertEquals(1, log.stream().filter(line -> line.startsWith("no dump")).count());
    }
  }

  @Test
  void imagesOfEndedJobsAreRemoved(GpuCheckpoints machine) throws Exception {
    keepsImages = true;
    assertEquals(JobRun.REQUEUED, preempt(launchedSleep(machine)), log::toString);
    Path all = directory.resolve("images");
    Path cancelled = Files.createDirectories(all.resolve("lab-99/images")).getParent();
    Files.setPosixFilePermissions(cancelled, PosixFilePermissions.fromString("rwx------"));
    Path image = store(machine).list().get(0).directory();
    machine.store(cancelled.resolve("images")).fetch(image);
    controller.config("ClusterName = lab\n");
    assertEquals(List.of(0, 0), pruned(machine, Duration.ofDays(1)));
    assertEquals(List.of(0, 1), pruned(machine, Duration.ZERO), "Slurm does not know job 99");
    assertFalse(Files.exists(cancelled));
    Files.writeString(finished(), "0");
    assertEquals(List.of(1), pruned(machine, Duration.ofDays(1)));
    assertFalse(Files.exists(image));
    assertTrue(Files.exists(finished()), "a requeued job returns its code");
  }

  private List<Integer> pruned(GpuCheckpoints machine, Duration age) {
    return new EndedJobs(machine, controller.scontrol(), directory.resolve("images"), age, log::add)
        .removeImages().stream().map(EndedJobs.Outcome::removed).toList();
  }

  /** If this process ended without it, the job would have failed, with its command in an image. */
  @Test
  void requeuesWhenTheControllerAnswersAgain(GpuCheckpoints machine) throws Exception {
    Run run = launchedSleep(machine);
    controller.goAway();
    run.events().signalled("USR1");
    assertTrue(Await.until(PATIENCE, () -> isLogged("is not requeued yet")), log::toString);
    assertFalse(run.code().isDone(), log::toString);
    controller.comeBack();
    assertTrue(Await.until(PATIENCE, () -> changes().size() > 1), log::toString);
    run.events().signalled("TERM");
    assertEquals(JobRun.REQUEUED, run.await(), log::toString);
    assertFalse(isLogged("to continue it"), log::toString);
    assertEquals(REQUEUE, changes().get(changes().size() - 1));
  }

  /** Slurm does not requeue a job that has ended. */
  @Test
  void requeuesAgainIfTheControllerWasBusy(GpuCheckpoints machine) throws Exception {
    Run run = launchedSleep(machine);
    controller.failNextRequeue();
    run.events().signalled("USR1");
    assertTrue(
        Await.until(PATIENCE, () -> run.code().isDone() || changes().size() > 1), log::toString);
    run.events().signalled("TERM");
    assertEquals(JobRun.REQUEUED, run.await(), log::toString);
    assertEquals(List.of(REQUEUE, REQUEUE), changes(), log::toString);
    assertFalse(isLogged("to continue it"), log::toString);
  }

  /** The other GPU of the node is that of another job then, even if it has room. */
  @Test
  @SimulatedGpu(gpus = 2)
  void continuesOnTheGpuThatSlurmHasGivenToIt(GpuCheckpoints machine, SimulatedDriver driver)
      throws Exception {
    Counter counter = launched(machine, driver);
    assertEquals(101, counter.increment());
    assertEquals(gpu(machine, 0), counter.gpu());
    for (int restarts = 1; restarts < 3; restarts++) {
      assertEquals(JobRun.REQUEUED, preempt(), log::toString);
      gpus = List.of(restarts == 1 ? "1" : gpu(machine, 0));
      log.removeIf(line -> line.contains("restored process"));
      first = restored(machine, restarts);
      assertTrue(Await.until(PATIENCE, this::isRestored), log::toString);
      assertEquals(101 + restarts, counter.increment());
      assertEquals(gpu(machine, restarts % 2), counter.gpu(), log::toString);
    }
    assertFalse(isLogged("may use each GPU"), log::toString);
    endCounter(counter);
    assertEquals(CODE, first().await(), log::toString);
  }

  private static String gpu(GpuCheckpoints machine, int index) {
    return machine.gpus().gpus().orElseThrow().get(index).uuid().text();
  }

  /** A requeue would end the command of a task that is still being dumped. */
  @Test
  void isRequeuedWhenTheOtherTasksAreDumpedToo(GpuCheckpoints machine) throws Exception {
    Path task = otherTask();
    Run run = launchedSleep(machine);
    preemptAndAwaitItsWait(run);
    assertEquals(List.of(), changes(), log::toString);
    assertEquals("0", Files.readString(directory.resolve("images/lab-17/ready")));
    Files.writeString(task.resolve("ready"), "0");
    assertEquals(JobRun.REQUEUED, ended(run, 0), log::toString);
    assertEquals(List.of(REQUEUE), changes());
  }

  @Test
  void sigtermEndsTheWaitForOtherTasks(GpuCheckpoints machine) throws Exception {
    Files.writeString(otherTask().resolve("ready"), "0"); // of an earlier run
    Run run = launchedSleep(machine);
    assertEquals(JobRun.REQUEUED, preempt(run), log::toString);
    Run second = restored(machine, 1);
    assertTrue(Await.until(PATIENCE, this::isRestored), log::toString);
    preemptAndAwaitItsWait(second);
    controller.job("COMPLETING", 2);
    second.events().signalled("TERM");
    assertEquals(JobRun.REQUEUED, second.await(), log::toString);
    assertEquals(List.of(REQUEUE), changes(), "another task has requeued the job");
  }

  /** It may run on another node already. */
  @Test
  void jobThatAnotherTaskHasRequeuedIsNotRequeuedAgain(GpuCheckpoints machine) throws Exception {
    Path task = otherTask();
    Run run = launchedSleep(machine);
    preemptAndAwaitItsWait(run);
    controller.job("RUNNING", 1);
    Files.writeString(task.resolve("ready"), "0");
    assertEquals(JobRun.REQUEUED, run.await(), log::toString);
    assertEquals(List.of(), changes(), log::toString);
  }

  private void preemptAndAwaitItsWait(Run run) {
    run.events().signalled("USR1");
    assertTrue(Await.until(PATIENCE, () -> isLogged("waits for the dump of")), log::toString);
  }

  private Path otherTask() throws IOException {
    others = List.of("lab-17-step0-rank1", "never-started");
    Path task = directory.resolve("images/lab-17-step0-rank1");
    Files.createDirectories(task);
    Files.setPosixFilePermissions(task, Set.of(OWNER_READ, OWNER_WRITE, OWNER_EXECUTE));
    return task;
  }

  @Test
  void commandThatIsSuspendedIsDumpedAsItIs(GpuCheckpoints machine, SimulatedDriver driver)
      throws Exception {
    Counter counter = launched(machine, driver);
    assertEquals(101, counter.increment());
    CheckpointedProcess suspended = machine.suspend(counter.pid());
    assertEquals(JobRun.REQUEUED, preempt(), log::toString);
    assertFalse(suspended.identity().isAlive(), log::toString);
    assertEquals(List.of(REQUEUE), changes(), log::toString);

    assertContinues(machine, 1, counter, 102);
  }

  @Test
  void commandThatIsSuspendedContinuesIfItCannotBeDumped(
      GpuCheckpoints machine, SimulatedDriver driver) throws Exception {
    Counter counter = launched(machine, driver);
    CheckpointedProcess suspended = machine.suspend(counter.pid());
    Path images = directory.resolve("images/lab-17/images");
    Files.delete(images);
    Files.createFile(images);
    first().events().signalled("USR1");
    assertTrue(Await.until(PATIENCE, () -> isLogged("continues")), log::toString);
    assertEquals(ProcessState.RUNNING, machine.inspect(suspended.pid()).state(), log::toString);
    assertEquals(101, counter.increment());
    endCounter(counter);
    assertEquals(CODE, first().await(), log::toString);
  }

  /** An isolated command has another pid in each run. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void keepsTheNewestTwoImages(boolean isIsolated, GpuCheckpoints machine) throws Exception {
    isolated = isIsolated;
    Run run = launchedSleep(machine);
    assertEquals(JobRun.REQUEUED, preempt(run), log::toString);
    Path oldest = store(machine).list().get(0).directory();
    for (int restarts = 1; restarts < 4; restarts++) {
      assertEquals(JobRun.REQUEUED, preempt(restored(machine, restarts)), log::toString);
    }
    assertEquals(2, store(machine).list().size(), log::toString);
    assertFalse(Files.exists(oldest), log::toString);
  }

  @Test
  void firstRunLeavesTheImagesOfAnEarlierJobAlone(GpuCheckpoints machine) throws Exception {
    Path left = Files.createDirectories(directory.resolve("images/lab-17"));
    Files.writeString(left.resolve("finished"), "5");
    assertEquals(3, run(machine, 0, List.of("sh", "-c", "exit 3")).await(), log::toString);
    assertLogged("the images of an earlier job 17 are now in ");
  }

  @Test
  void checkNamesWhatTheClusterLacks(GpuCheckpoints machine) throws Exception {
    controller.config(
        """
        ProctrackType = proctrack/linuxproc
        PreemptType = preempt/none
        SignalChildrenProcesses = yes
        """);
    controller.partition("PartitionName=low GraceTime=0 PreemptMode=CANCEL\n");
    Map<String, Finding.Severity> found = new HashMap<>();
    new SlurmCheck(
            machine,
            controller.scontrol(),
            "low",
            directory.resolve("images"),
            OptionalLong.of(1 << 20))
        .run()
        .forEach(finding -> found.putIfAbsent(finding.subject(), finding.severity()));
    assertEquals("PROBLEM", String.valueOf(found.get("PreemptMode")));
    assertEquals("PROBLEM", String.valueOf(found.get("GraceTime")));
    assertEquals("WARNING", String.valueOf(found.get("ProctrackType")));
    assertEquals("WARNING", String.valueOf(found.get("ConstrainDevices")));
    assertEquals("WARNING", String.valueOf(found.get("SignalChildrenProcesses")));
    assertEquals("WARNING", String.valueOf(found.get("PreemptType")));
    assertEquals("WARNING", String.valueOf(found.get("signals")));
    try (Stream<Path> files = Files.list(directory.resolve("images"))) {
      assertEquals(0, files.count(), "the file for the measurement is removed");
    }
  }
}
