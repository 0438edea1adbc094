package dev.gpuprocess.examples;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.GpuProcess;
import dev.gpuprocess.ImageStore;
import dev.gpuprocess.LaunchedProcess;
import dev.gpuprocess.LockedProcess;
import dev.gpuprocess.PoisonedProcessException;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.Recovered;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.SnapshotPlan;
import dev.gpuprocess.contract.RequiresCriu;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.LockTimeoutException;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.error.ProcessUnfitException;
import dev.gpuprocess.error.RetryLaterException;
import dev.gpuprocess.examples.demo.Scratch;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.Job;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.LaunchOptions;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.options.ResumeOptions;
import dev.gpuprocess.options.RetentionPolicy;
import dev.gpuprocess.options.SuspendOptions;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.Step;
import dev.gpuprocess.report.StepListener;
import dev.gpuprocess.slot.GpuSlot;
import java.io.File;
import java.io.IOException;
import java.lang.ProcessBuilder.Redirect;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalInt;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.Predicate;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * The code in README.md, docs/guide.md and the javadoc, compiled and run. {@link DocumentationTest}
 * compares it with the regions here. The recipes of docs/cookbook.md are regions of the package
 * {@code cookbook}.
 *
 * <p>Surefire sets {@code gpuprocess.driver.dir} and a working directory of its own, so that the
 * snippets find a simulated driver as users find theirs, and can write to {@code images}.
 */
@Tag("jdk")
class SnippetsTest {

  private static SimulatedDriver driver;

  private Counter counter;
  private long pid;

  @BeforeAll
  static void buildMachine() {
    driver = SimulatedDriver.builder().create(Path.of(System.getProperty("gpuprocess.driver.dir")));
  }

  @AfterAll
  static void removeMachine() {
    driver.close();
  }

  @BeforeEach
  void startCounter() {
    counter = Counter.start(driver);
    pid = counter.pid();
    assertEquals(101, counter.increment());
  }

  @AfterEach
  void endCounter() {
    driver.clearFaults();
    counter.close();
  }

  @Test
  void suspendsForAnUrgentJob() {
    Runnable urgentJob = () -> assertInstanceOf(CheckpointedProcess.class, GpuProcess.inspect(pid));
    // [start:suspend]
    // free the GPU for something urgent, then continue
    try (CheckpointedProcess parked = GpuProcess.of(pid).suspend()) {
      urgentJob.run();
    } // resumed here, also when urgentJob throws
    // [end:suspend]
    assertEquals(102, counter.increment());
  }

  @Test
  @RequiresCriu
  void dumpsAndRestores() throws IOException {
    Path images = Files.createDirectories(Path.of("images"));
    assertFalse(Files.exists(images.resolve("job-42")), "left by an earlier run: run mvn clean");
    // [start:disk]
    // to disk and back, perhaps tomorrow, perhaps elsewhere
    ProcessImage image = GpuProcess.of(pid).dump(Path.of("images", "job-42"));
    RunningProcess again = ProcessImage.open(Path.of("images", "job-42")).resume();
    // [end:disk]
    assertEquals(pid, image.manifest().pid());
    assertEquals(pid, again.pid());
    assertEquals(102, counter.increment());
    try (Scratch scratch = Scratch.of(images.resolve("job-42"))) {
      assertTrue(Files.exists(scratch.resolve("manifest.json")));
    }
  }

  @Test
  void unlocksALockedProcess() {
    assertEquals(pid, GpuProcess.of(pid).lock().pid());
    // [start:inspect]
    // a tool that arrives in the middle
    if (GpuProcess.inspect(pid) instanceof LockedProcess locked) locked.unlock();
    // [end:inspect]
    assertEquals(102, counter.increment());
  }

  @Test
  void suspendsATree() {
    try (Job tree = Job.launch(2, 1, 1).on(driver).start()) {
      long rootPid = tree.pid();
      Runnable urgentJob =
          () -> assertInstanceOf(CheckpointedProcess.class, GpuProcess.inspect(rootPid));
      // [start:tree]
      // the same for a tree with several CUDA processes
      try (CheckpointedProcess parked = GpuProcess.of(rootPid).suspend()) {
        urgentJob.run();
      }
      // [end:tree]
      assertInstanceOf(RunningProcess.class, GpuProcess.inspect(rootPid));
      assertEquals("ok %d bytes".formatted(1 << 20), tree.verify(1));
    }
  }

  @Test
  void launchesAProcess() throws IOException {
    Files.writeString(Path.of("train.sh"), "echo trained; exit 3\n");
    Files.deleteIfExists(Path.of("train.log"));
    // [start:launch]
    // a process of our own
    LaunchedProcess training =
        GpuProcess.launch(
            LaunchOptions.builder("sh", "train.sh")
                .output(Redirect.appendTo(new File("train.log")))
                .build());
    LaunchedProcess.Exit exit = training.awaitExit(Duration.ofHours(8)).orElseThrow();
    // [end:launch]
    assertEquals(OptionalInt.of(3), exit.code());
    assertEquals("trained\n", Files.readString(Path.of("train.log")));
  }

  @Test
  void launchesAProcessThatRequestsSnapshots() throws IOException {
    Files.writeString(
        Path.of("train.sh"), "test -S \"$GPUPROCESS_SOCKET\" && test $PPID = $GPUPROCESS_ROOT\n");
    Files.createDirectories(Path.of("images"));
    // [start:requests]
    // a process that requests snapshots of itself
    LaunchedProcess requesting =
        GpuProcess.launch(
            LaunchOptions.builder("sh", "train.sh").build(),
            SnapshotPlan.into(ImageStore.at(Path.of("images", "requested"))).build());
    // [end:requests]
    assertEquals(
        OptionalInt.of(0), requesting.awaitExit(Duration.ofMinutes(1)).orElseThrow().code());
  }

  @Test
  @RequiresCriu
  void makesSnapshots() throws IOException {
    try (Scratch images = Scratch.of(Files.createDirectories(Path.of("images", "job-43")))) {
      for (int earlier = 0; earlier < 3; earlier++) {
        assertTrue(
            ImageStore.at(images.resolve("")).snapshot(GpuProcess.of(pid)).steps().size() > 1);
      }
      // [start:snapshot]
      // a backup of a process that continues; the newest three stay
      ImageStore store = ImageStore.at(Path.of("images", "job-43"));
      ProcessImage newest = store.snapshot(GpuProcess.of(pid));
      store.prune(RetentionPolicy.builder().keepLast(3).build());
      // [end:snapshot]
      assertEquals(3, store.list().size());
      assertEquals(newest.directory(), store.list().get(0).directory());
      assertEquals(102, counter.increment());
      counter.kill();
      Predicate<ProcessIdentity> serverAnswers = process -> counter.increment() == 102;
      // [start:verify]
      // back to running, if the server answers; otherwise it is ended, and the image stays
      newest.resume(
          RestoreOptions.builder().verify(serverAnswers, Duration.ofSeconds(30)).build(),
          ResumeOptions.ofDefaults());
      // [end:verify]
      assertEquals(103, counter.increment());
    }
  }

  @Test
  void suspendsOnAnExecutor() {
    ExecutorService executor = Executors.newSingleThreadExecutor();
    RunningProcess process = GpuProcess.of(pid);
    // [start:async]
    CompletableFuture<CheckpointedProcess> parked = // parked.cancel(true) cancels the suspend
        Cancellation.async(
            executor, by -> process.suspend(SuspendOptions.builder().cancellation(by).build()));
    // [end:async]
    assertEquals(pid, parked.join().resume().pid());
    executor.shutdown();
    assertEquals(102, counter.increment());
  }

  @Test
  void takesTurns() {
    long training = pid;
    try (Counter server = Counter.start(driver)) {
      long inference = server.pid();
      Runnable answer = () -> assertEquals(101, server.increment());
      // [start:slot]
      try (GpuSlot slot = GpuSlot.named("main").open()) {
        slot.enqueue(training, 0); // runs while no other process wants the GPU
        slot.acquire(inference, 1); // takes it at once
        answer.run();
        slot.release(inference); // the training continues
      }
      // [end:slot]
      GpuProcess.resume(training);
    }
    assertEquals(102, counter.increment());
  }

  @Test
  void resumesFromAnyState() {
    assertEquals(pid, GpuProcess.of(pid).suspend().pid());
    // [start:resume]
    GpuProcess.resume(pid); // running again, from whatever state
    // [end:resume]
    assertEquals(102, counter.increment());
  }

  @Test
  void recovers(@TempDir Path state) {
    GpuCheckpoints gpus = GpuCheckpoints.builder().stateDirectory(state).build();
    // [start:recover]
    // when a controller starts: unlocks what a dead one had locked, returns what it had suspended
    for (Recovered found : gpus.recover()) {
      if (found.suspended() != null) found.suspended().resume();
    }
    // [end:recover]
    assertEquals(102, counter.increment());
  }

  @Test
  @RequiresCriu
  void waitsForMemory() {
    CheckpointedProcess suspended = GpuProcess.of(pid).suspend();
    // [start:options]
    Cancellation stop = new Cancellation(); // stop.cancel() in another thread ends the wait
    ResumeOptions options =
        ResumeOptions.builder()
            .waitForMemory(Duration.ofMinutes(5))
            .fallbackImage(Path.of("images", "job-44")) // written first
            .cancellation(stop)
            .build();
    try {
      suspended.resume(options);
    } catch (PoisonedProcessException e) { // another program took the memory first
      e.process().replaceWith(ProcessImage.open(Path.of("images", "job-44"))).resume();
    }
    // [end:options]
    assertEquals(102, counter.increment());
    try (Scratch scratch = Scratch.of(Path.of("images", "job-44"))) {
      assertTrue(Files.exists(scratch.resolve("manifest.json")));
    }
  }

  @Test
  void resumesOnExit() {
    Runnable urgentJob = () -> assertInstanceOf(CheckpointedProcess.class, GpuProcess.inspect(pid));
    // [start:exit]
    GpuCheckpoints service = GpuCheckpoints.builder().resumeOnExit(true).build();
    try (CheckpointedProcess parked = service.process(pid).suspend()) {
      urgentJob.run();
    } // resumed here, and also when a SIGTERM ends this JVM first
    // [end:exit]
    assertEquals(102, counter.increment());
  }

  @Test
  @RequiresCriu
  void restoresFromTheFallbackImage() {
    driver.faults(
        Fault.in("cuCheckpointProcessRestore").pid(pid).answers(2)); // CUDA_ERROR_OUT_OF_MEMORY
    CheckpointedProcess suspended = GpuProcess.of(pid).suspend();
    Path image = Path.of("images", "job-45");
    ResumeOptions options = ResumeOptions.builder().fallbackImage(image).build();
    PoisonedProcessException lost =
        assertThrows(PoisonedProcessException.class, () -> suspended.resume(options));
    driver.clearFaults();
    lost.process().replaceWith(ProcessImage.open(image)).resume();
    assertEquals(102, counter.increment());
    try (Scratch scratch = Scratch.of(image)) {
      assertTrue(Files.exists(scratch.resolve("manifest.json")));
    }
  }

  @Test
  void catchesExceptionsByGroup() {
    List<String> log = new ArrayList<>();
    driver.faults(
        Fault.in("cuCheckpointProcessLock").pid(pid).answers(600)); // CUDA_ERROR_NOT_READY
    // [start:errors]
    try {
      GpuProcess.of(pid).lock(Duration.ofMillis(100));
    } catch (RetryLaterException e) { // busy, or too little memory: the same call may succeed later
      log.add(e.getMessage()); // one sentence: what happened to which process, and what to do
      log.add(e.failure().operation() + " took " + e.failure().elapsed());
    } catch (FixAndRetryException e) { // the message names what has to be fixed first
      log.add(e.getMessage());
    } catch (ProcessUnfitException e) { // this process cannot be suspended: give it up
      log.add(e.getMessage());
    } catch (MachineUnfitException e) { // nor can any other process on this machine
      log.add(e.getMessage());
    }
    // [end:errors]
    driver.clearFaults();
    assertEquals(2, log.size());
    assertTrue(log.get(0).contains(Long.toString(pid)), log.get(0));
    assertEquals(102, counter.increment());
  }

  @Test
  void reportsEveryStep() {
    List<String> log = new ArrayList<>();
    // [start:steps]
    StepListener listener =
        new StepListener() {
          @Override
          public void finished(Step step) {
            log.add(step.name() + " " + step.duration().toMillis() + " ms");
          }
        };
    RunningProcess resumed =
        GpuCheckpoints.builder().listener(listener).build().process(pid).suspend().resume();
    resumed.steps(); // the same steps
    // [end:steps]
    assertEquals(
        List.of("lock", "checkpoint", "restore", "unlock"),
        resumed.steps().stream().map(Step::name).toList());
    assertEquals(4, log.size());
  }

  @Test
  void runsWithoutAGpu() {
    // [start:simulated]
    try (SimulatedDriver machine = SimulatedDriver.create(); // a libcuda.so.1 that needs no GPU
        Counter counter = Counter.start(machine)) {
      GpuCheckpoints gpus =
          GpuCheckpoints.builder()
              .cuda(machine.directory())
              .stateDirectory(machine.stateDirectory()) // not the one of the real machine
              .build();
      gpus.process(counter.pid()).suspend().resume();
      assertEquals(101, counter.increment());
    }
    // [end:simulated]
  }

  @Test
  void runsTheVerbsOfTheJavadoc() {
    try (CheckpointedProcess suspended = GpuProcess.of(pid).lock().checkpoint()) {
      assertEquals(pid, suspended.pid());
    }
    assertEquals(102, counter.increment());
  }

  @Test
  void injectsTheFaultsOfTheJavadoc() {
    driver.faults(
        Fault.in("cuCheckpointProcessLock").pid(pid).call(2).answers(600),
        Fault.in("cuCheckpointProcessCheckpoint").during().kills());
    assertEquals(102, counter.increment());
    GpuProcess.of(pid).lock().unlock();
    assertThrows(LockTimeoutException.class, () -> GpuProcess.of(pid).lock());
    assertThrows(GpuCheckpointException.class, () -> GpuProcess.of(pid).suspend());
    assertTrue(counter.awaitExit(Duration.ofSeconds(30)));
  }

  @Test
  void makesTheMachineOfTheFixturesReadme() {
    try (SimulatedDriver driver = SimulatedDriver.builder().gpus(2).memory(1L << 30).create();
        Counter counter = Counter.start(driver)) {
      assertEquals(101, counter.increment());
      driver.faults(Fault.in("cuCheckpointProcessLock").pid(counter.pid()).call(2).answers(600));
      // give driver.libcuda() to the code under test, and counter.pid()
      assertTrue(Files.exists(driver.libcuda()));
    }
  }
}
