package dev.gpuprocess;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.mockito.ArgumentMatchers.any;
import static org.mockito.Mockito.CALLS_REAL_METHODS;
import static org.mockito.Mockito.doReturn;
import static org.mockito.Mockito.doThrow;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.when;

import dev.gpuprocess.contract.LaunchedTree;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.error.UnsupportedResource;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.Job;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.fixtures.Signal;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.fixtures.Workload;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.Timeouts;
import dev.gpuprocess.report.Diagnosis;
import dev.gpuprocess.report.Finding;
import dev.gpuprocess.report.Finding.Severity;
import dev.gpuprocess.spi.CriuDriver;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * What the doctor finds, over the simulated driver; {@code criu-driver} has the tests with CRIU.
 */
@SimulatedGpu(mebibytes = 1024)
class DoctorTest {

  @TempDir Path directory;
  private final SimulatedDriver machine;
  private final CriuDriver criu = mock(CriuDriver.class, CALLS_REAL_METHODS);
  private final GpuCheckpoints checkpoints;

  DoctorTest(SimulatedDriver machine, GpuCheckpoints checkpoints) {
    this.machine = machine;
    when(criu.version()).thenReturn("4.2.1");
    Duration patience = Duration.ofSeconds(30);
    this.checkpoints =
        checkpoints.toBuilder()
            .criu(criu)
            .timeouts(Timeouts.builder().lock(patience).call(patience).transfer(patience).build())
            .build();
  }

  private GpuCheckpoints on(Path driver) {
    return checkpoints.toBuilder().cuda(driver).build();
  }

  /** Returns the text of the only finding of this severity about the subject. */
  private static String told(Diagnosis diagnosis, Severity severity, String subject) {
    List<Finding> told =
        diagnosis.findings().stream()
            .filter(f -> f.subject().equals(subject) && f.severity() == severity)
            .toList();
    assertEquals(1, told.size(), () -> severity + " " + subject + " in\n" + diagnosis);
    return told.get(0).toString();
  }

  private static void assertTells(
      Diagnosis diagnosis, Severity severity, String... subjectAndText) {
    String text = told(diagnosis, severity, subjectAndText[0]);
    assertTrue(text.contains(subjectAndText[1]), text);
  }

  @Test
  void machineWhereAllWorksIsHealthy() {
    Diagnosis diagnosis = checkpoints.doctor();
    assertTrue(diagnosis.isHealthy(), diagnosis::toString);
    assertTells(diagnosis, Severity.OK, "libcuda", "CUDA 13.0, driver ");
    for (String function :
        List.of("GetState", "GetRestoreThreadId", "Lock", "Checkpoint", "Restore", "Unlock")) {
      assertTells(diagnosis, Severity.OK, "cuCheckpointProcess" + function, "is available");
    }
    assertTells(diagnosis, Severity.OK, "GPU pairs", "another GPU");
    assertTells(diagnosis, Severity.OK, "custom storage", "host memory only");
    assertTells(diagnosis, Severity.OK, "CRIU", "4.2.1");
    assertTells(diagnosis, Severity.OK, "criu check", "what it needs");
    assertTells(diagnosis, Severity.OK, "host memory", "available");
    assertTells(diagnosis, Severity.OK, "state directory", "can be written");
  }

  @Test
  void noDriverIsAProblemThatSaysWhatToDo() throws IOException {
    Path empty = Files.createDirectory(directory.resolve("empty"));
    Diagnosis diagnosis = on(empty).doctor();
    assertFalse(diagnosis.isHealthy());
    assertTells(diagnosis, Severity.PROBLEM, "libcuda", "install the NVIDIA driver");
    assertTells(diagnosis, Severity.WARNING, "GPUs", "libnvidia-ml.so.1");
    assertTells(diagnosis, Severity.OK, "CRIU", "4.2.1");
  }

  @Test
  void oldDriverLacksEachOfTheSixFunctions() {
    try (SimulatedDriver old = SimulatedDriver.builder().driverVersion(12040).create()) {
      Diagnosis diagnosis = on(old.directory()).doctor();
      assertEquals(6, diagnosis.problems().size(), diagnosis::toString);
      assertTells(diagnosis, Severity.PROBLEM, "cuCheckpointProcessLock", "570");
      assertTells(diagnosis, Severity.WARNING, "GPU pairs", "580");
    }
  }

  @Test
  @OutsideUse("A5")
  void gpuThatCannotBeReadIsAProblem() {
    machine.faults(Fault.in("nvmlDeviceGetMemoryInfo").answers(15));
    assertTrue(
        checkpoints.doctor().problems().stream()
            .anyMatch(finding -> finding.toString().contains("NVML cannot read")));
  }

  @Test
  void machineWithoutGpusIsAProblem() {
    try (SimulatedDriver none = SimulatedDriver.builder().gpus(0).create()) {
      assertTells(on(none.directory()).doctor(), Severity.PROBLEM, "GPUs", "finds none");
    }
  }

  @Test
  void driverThatHangsIsAProblemAndNotAHang() {
    GpuCheckpoints hasty =
        checkpoints.toBuilder()
            .timeouts(
                Timeouts.builder()
                    .lock(Duration.ofSeconds(1))
                    .call(Duration.ofSeconds(6))
                    .transfer(Duration.ofSeconds(1))
                    .build())
            .build();
    machine.faults(Fault.in("cuCheckpointProcessUnlock").hangs());
    try {
      assertTells(hasty.doctor(), Severity.PROBLEM, "cuCheckpointProcessUnlock", "does not answer");
    } finally {
      machine.clearFaults();
      await().atMost(20, SECONDS).until(() -> GpuCheckpoints.abandonedCalls() == 0);
    }
  }

  @Test
  void whatCriuThrowsIsAProblem() {
    doThrow(
            new FixAndRetryException(
                FixAndRetryException.Reason.WRONG_STATE,
                "CRIU needs a newer kernel",
                Failure.of("check", 0)))
        .when(criu)
        .check();
    assertTells(checkpoints.doctor(), Severity.PROBLEM, "criu check", "needs a newer kernel");
    doThrow(new IllegalStateException("a bug")).when(criu).check();
    assertTells(checkpoints.doctor(), Severity.PROBLEM, "criu check", "a bug");
  }

  @Test
  void directoriesThatCannotBeWrittenAreProblems() throws IOException {
    Path file = Files.createFile(directory.resolve("file"));
    Diagnosis diagnosis =
        checkpoints.toBuilder()
            .stateDirectory(file.resolve("state"))
            .build()
            .doctor(file.resolve("images"));
    assertTells(diagnosis, Severity.PROBLEM, "state directory", "GPUPROCESS_STATE_DIR");
    assertTells(diagnosis, Severity.PROBLEM, "image directory", "is not a directory");
    assertTells(checkpoints.doctor(directory), Severity.OK, "image directory", " free");
  }

  @Test
  void runningProcessIsFine(Counter counter) {
    Diagnosis diagnosis = checkpoints.doctor(counter.pid());
    assertTrue(diagnosis.isHealthy(), diagnosis::toString);
    assertTells(diagnosis, Severity.OK, "CUDA", "RUNNING");
    assertTells(diagnosis, Severity.OK, "GPU memory", " MiB on GPU-");
    assertTells(diagnosis, Severity.OK, "process " + counter.pid(), "0 descendants");
    assertEquals(101, counter.increment());
  }

  @Test
  void suspendedProcessSaysWhoIsAtItAndWhetherItCanComeBack() {
    try (RoomOnGpu room = new RoomOnGpu();
        Pattern pattern = room.pattern()) {
      GpuCheckpoints there = on(room.machine.directory());
      CheckpointedProcess suspended = there.process(pattern.pid()).suspend();
      Diagnosis alone = there.doctor(pattern.pid());
      assertTrue(alone.isHealthy(), alone::toString);
      assertTells(alone, Severity.OK, "CUDA", "CHECKPOINTED");
      assertTells(alone, Severity.OK, "journal", "this JVM works on it: checkpointed");
      assertTells(alone, Severity.OK, "GPU memory", "there is enough");
      try (Pattern filler = room.pattern()) {
        Diagnosis crowded = there.doctor(pattern.pid());
        String shortage = told(crowded, Severity.PROBLEM, "GPU memory");
        assertTrue(shortage.contains("held by [" + filler.pid() + "]"), shortage);
      }
      room.awaitFree(RoomOnGpu.GPU_MIB);
      suspended.resume();
    }
  }

  @Test
  void lockedProcessIsAWarning(Counter counter) {
    LockedProcess locked = checkpoints.process(counter.pid()).lock();
    assertTells(checkpoints.doctor(counter.pid()), Severity.WARNING, "CUDA", "LOCKED");
    locked.unlock();
  }

  @Test
  void processOfADeadControllerIsAWarningThatNamesTheCure(Counter counter) throws IOException {
    LockedProcess locked = checkpoints.process(counter.pid()).lock();
    try (Stream<Path> entries = Files.list(checkpoints.stateDirectory())) {
      Path entry =
          entries.filter(file -> file.toString().endsWith(".process")).findFirst().orElseThrow();
      Files.writeString(
          entry,
          Files.readString(entry)
              .replaceAll("controller.pid=\\d+", "controller.pid=" + counter.pid())
              .replaceAll("controller.start=\\d+", "controller.start=1"));
    }
    assertTells(checkpoints.doctor(counter.pid()), Severity.WARNING, "journal", "recover()");
    locked.unlock();
  }

  @Test
  void stoppedProcessIsAProblemAndTheDriverIsNotAsked(Counter counter) throws Exception {
    String pid = Long.toString(counter.pid());
    Signal.send("STOP", counter.pid());
    dev.gpuprocess.contract.Workload.await(
        () -> dev.gpuprocess.internal.proc.ProcFs.stat(counter.pid()).orElseThrow().isStopped(),
        "a stop");
    Diagnosis diagnosis = checkpoints.doctor(counter.pid());
    Signal.send("CONT", counter.pid());
    assertTells(diagnosis, Severity.PROBLEM, "process " + pid, "kill -CONT " + pid);
    assertEquals(1, diagnosis.problems().size(), diagnosis::toString);
    assertEquals(101, counter.increment());
  }

  @Test
  void processWithoutCudaIsAProblem() {
    try (Workload idle = Workload.idle()) {
      assertTells(checkpoints.doctor(idle.pid()), Severity.PROBLEM, "CUDA", "no CUDA state");
    }
  }

  /** As a shell, or the server of a terminal multiplexer, with CUDA processes below it. */
  @Test
  void launcherWhoseChildrenUseCudaIsHealthy() {
    try (Job job = machine.start(Job.launch(2, 1, 0))) {
      Path image = directory.resolve("image");
      Diagnosis running = checkpoints.doctor(job.pid(), image, DumpOptions.ofDefaults());
      assertTrue(running.isHealthy(), running::toString);
      assertTells(running, Severity.OK, "CUDA", "and 2 of its descendants");
      String member = "child " + job.member(0);
      assertTells(running, Severity.OK, member, "is RUNNING, and is taken with");
      CheckpointedProcess suspended = checkpoints.process(job.pid()).suspend();
      Diagnosis off = checkpoints.doctor(job.pid());
      assertTrue(off.isHealthy(), off::toString);
      assertTells(off, Severity.OK, member, "is CHECKPOINTED");
      assertTells(off, Severity.OK, "GPU memory", "there is enough for the memory that it held");
      suspended.resume();
      LaunchedTree.assertGoesOn(job, 2);
    }
  }

  @Test
  void childThatInheritedTheGpuIsAProblem(Counter counter) {
    String child = "child " + counter.fork();
    Diagnosis diagnosis = checkpoints.doctor(counter.pid());
    assertEquals(1, diagnosis.problems().size(), diagnosis::toString);
    assertTells(diagnosis, Severity.PROBLEM, child, "spawn or forkserver");
  }

  @Test
  @RequiresRoot("looks at what children have mapped")
  void bothCuresOfAForkedChildAreNamedAndTheOptionIsOne(Counter counter) {
    String child = "child " + counter.fork("plain");
    Diagnosis without = checkpoints.doctor(counter.pid());
    assertTells(without, Severity.PROBLEM, child, "inherited by fork, so");
    assertTells(without, Severity.PROBLEM, child, "LaunchOptions.dropInheritedGpu(true)");
    assertTells(without, Severity.PROBLEM, child, "DumpOptions.releaseInheritedGpu(true)");

    Path image = directory.resolve("image");
    DumpOptions releasing = DumpOptions.builder().releaseInheritedGpu(true).build();
    Diagnosis with = checkpoints.doctor(counter.pid(), image, releasing);
    assertEquals(List.of(), with.problems(), with::toString);
    assertTells(with, Severity.OK, child, "a dump releases it");

    String monitor = "child " + counter.fork("nvml");
    Diagnosis mixed = checkpoints.doctor(counter.pid(), image, releasing);
    assertTells(mixed, Severity.PROBLEM, monitor, "a dump cannot release it");
  }

  @Test
  void whatCriuWouldRefuseIsTold_butNotWhatASuspendLetsGo(Counter counter) {
    int pid = (int) counter.pid();
    List<Finding> findings =
        List.of(
            problem("its lock", "is held", pid, "descriptor 4", "/file"),
            problem("its GPU", "is open", pid, "descriptor 5", "/dev/nvidia0"));
    when(criu.preflight(any(), any())).thenReturn(findings);
    Diagnosis running = checkpoints.doctor(pid);
    assertEquals(List.of("its lock"), running.problems().stream().map(Finding::subject).toList());
    assertTells(running, Severity.OK, "device files", "a suspend closes them");

    CheckpointedProcess suspended = checkpoints.process(pid).suspend();
    List<Finding> problems = checkpoints.doctor(pid).problems();
    assertEquals(List.of("its lock", "its GPU"), problems.stream().map(Finding::subject).toList());
    suspended.resume();
  }

  private static Finding problem(String subject, String what, int pid, String handle, String name) {
    UnsupportedResource resource =
        new UnsupportedResource(UnsupportedResource.Kind.OTHER, pid, handle, name, null);
    return new Finding(Severity.PROBLEM, subject, what, "", resource);
  }

  @Test
  void processThatCannotBeDumpedForWantOfCriuIsAProblem() {
    when(criu.version())
        .thenThrow(
            new MachineUnfitException(
                MachineUnfitException.Reason.NO_CRIU,
                "no CRIU can be started: install it",
                Failure.of("dump", 0)));
    try (Counter counter = Counter.start(machine)) {
      Path image = directory.resolve("image");
      for (Diagnosis diagnosis :
          List.of(
              checkpoints.doctor(counter.pid()),
              checkpoints.doctor(counter.pid(), image, DumpOptions.ofDefaults()))) {
        assertFalse(diagnosis.isHealthy(), diagnosis::toString);
        assertEquals(1, diagnosis.problems().size(), diagnosis::toString);
        assertTells(
            diagnosis,
            Severity.PROBLEM,
            "dump is not possible",
            "no CRIU can be started: install it");
        assertTells(diagnosis, Severity.OK, "CUDA", "RUNNING");
      }
      doReturn("4.2.1").when(criu).version();
      assertTells(checkpoints.doctor(counter.pid()), Severity.OK, "CRIU", "4.2.1");
    }
  }

  @Test
  void pidThatNobodyHasIsAProblem() {
    for (long pid : new long[] {0, -1, 4_194_304, Long.MAX_VALUE}) {
      assertTells(checkpoints.doctor(pid), Severity.PROBLEM, "process " + pid, "does not exist");
    }
  }

  @Test
  void imageThatHasNoRoomIsAProblem() throws IOException {
    Path small = Files.createDirectory(directory.resolve("small"));
    try (dev.gpuprocess.contract.TmpFs disk =
            dev.gpuprocess.contract.TmpFs.mount(small, "size=8m");
        Counter counter = Counter.start(machine)) {
      assertTrue(Files.isDirectory(small), disk::toString);
      Diagnosis diagnosis =
          checkpoints.doctor(counter.pid(), small.resolve("image"), DumpOptions.ofDefaults());
      assertTells(diagnosis, Severity.PROBLEM, "image directory", " needs about 1");
    }
  }
}
