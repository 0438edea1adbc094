package dev.gpuprocess.examples.slurm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ImageStore;
import dev.gpuprocess.contract.RequiresCriu;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.TmpFs;
import dev.gpuprocess.examples.demo.Await;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Signal;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.io.TempDir;

/** The runs of one job, on a simulated GPU with real CRIU; a program answers for Slurm. */
@SimulatedGpu
@RequiresCriu
@RequiresRoot("is the parent of what CRIU restores")
@Tag("slow")
abstract class JobRunCase {

  static final Duration PATIENCE = Duration.ofSeconds(60);
  static final Pattern LAUNCHED = Pattern.compile("launched process (\\d+)");
  static final int CODE = 7;
  static final String REQUEUE = "requeue Incomplete 17";

  @TempDir Path directory;
  FakeController controller;
  final List<String> log = new CopyOnWriteArrayList<>();
  @Nullable Run first;
  @Nullable Duration every;
  Duration grace = PATIENCE;
  boolean isolated;
  boolean keepsImages;
  List<String> others = List.of();
  List<String> gpus = List.of();

  @BeforeEach
  void makeController() throws IOException {
    controller = new FakeController(directory.resolve("slurm"));
  }

  /** A run loads what a dump needs on a thread of its own, which uses the machine of the test. */
  @AfterEach
  void awaitPreparation() throws InterruptedException {
    for (Thread thread : Thread.getAllStackTraces().keySet()) {
      if (thread.getName().equals("gpuprocess slurm prepare")) {
        thread.join(PATIENCE.toMillis());
      }
    }
  }

  /** A run of the job that goes on in another thread. */
  record Run(JobEvents events, CompletableFuture<Integer> code) {

    int await() throws Exception {
      return code.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
    }
  }

  Run run(GpuCheckpoints machine, int restarts, List<String> command) throws IOException {
    controller.job("RUNNING", restarts);
    return begun(machine, restarts, command);
  }

  Run begun(GpuCheckpoints machine, int restarts, List<String> command) {
    SlurmJob job =
        new SlurmJob("17", "lab-17", restarts, "node" + (restarts + 1), "low", others, gpus);
    JobRun.Settings settings =
        new JobRun.Settings(
            directory.resolve("images"), every, grace, 2, isolated, keepsImages, command);
    JobEvents events = new JobEvents();
    CompletableFuture<Integer> code = new CompletableFuture<>();
    Thread thread =
        new Thread(
            () -> {
              try {
                code.complete(
                    new JobRun(machine, job, controller.scontrol(), settings, events, log::add)
                        .run());
              } catch (InterruptedException | RuntimeException | Error e) {
                code.completeExceptionally(e);
              }
            },
            "run of the job");
    thread.setDaemon(true);
    thread.start();
    return new Run(events, code);
  }

  Run restored(GpuCheckpoints machine, int restarts) throws IOException {
    return run(machine, restarts, List.of("/this/is/not/launched"));
  }

  /** Starts a counter as the child of a shell, which ends with a code of its own. */
  Counter launched(GpuCheckpoints machine, SimulatedDriver driver) {
    return launched(machine, driver, "");
  }

  /** The same, by a shell that does something else before. */
  Counter launched(GpuCheckpoints machine, SimulatedDriver driver, String before) {
    return driver.start(
        Counter.launch(16),
        (command, environment) -> {
          List<String> words = new ArrayList<>(List.of("/usr/bin/env"));
          environment.forEach((name, value) -> words.add(name + "=" + value));
          words.addAll(List.of("sh", "-c", before + "\"$@\"; exit " + CODE, "sh"));
          words.addAll(command);
          try {
            first = run(machine, 0, words);
          } catch (IOException e) {
            throw new IllegalStateException(e);
          }
          assertTrue(Await.until(PATIENCE, () -> launchedPid() > 0), log::toString);
          return launchedPid();
        });
  }

  Run launchedSleep(GpuCheckpoints machine) throws Exception {
    String script = TmpFs.LEAVE_MOUNTS_OF_TESTS + "exec sleep 1000";
    Run run = run(machine, 0, isolated ? List.of("sh", "-c", script) : List.of("sleep", "1000"));
    assertTrue(Await.until(PATIENCE, this::isAsleep), log::toString);
    return run;
  }

  private boolean isAsleep() {
    return ProcessHandle.of(launchedPid())
        .flatMap(process -> process.info().arguments())
        .filter(arguments -> List.of(arguments).equals(List.of("1000")))
        .isPresent();
  }

  long launchedPid() {
    return log.stream()
        .map(LAUNCHED::matcher)
        .filter(Matcher::find)
        .mapToLong(found -> Long.parseLong(found.group(1)))
        .findFirst()
        .orElse(0);
  }

  int preempt() throws Exception {
    return preempt(first());
  }

  int preempt(Run run) throws Exception {
    int before = changes().size();
    run.events().signalled("USR1");
    return ended(run, before);
  }

  /** Sends the signal that follows a requeue. */
  int ended(Run run, int changesBefore) throws Exception {
    assertTrue(
        Await.until(PATIENCE, () -> run.code().isDone() || changes().size() > changesBefore),
        log::toString);
    run.events().signalled("TERM");
    return run.await();
  }

  Run first() {
    Run run = first;
    assertTrue(run != null, "nothing was launched");
    return run;
  }

  List<String> changes() {
    try {
      return controller.changes();
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }

  static void endCounter(Counter counter) {
    Signal.send("KILL", member(counter));
  }

  /** Returns the counter itself, whose parent is the shell. */
  static long member(Counter counter) {
    return ProcessHandle.of(counter.pid()).orElseThrow().children().findFirst().orElseThrow().pid();
  }

  ImageStore store(GpuCheckpoints machine) {
    return machine.store(directory.resolve("images/lab-17/images"));
  }

  void assertLogged(String part) {
    assertTrue(isLogged(part), log::toString);
  }

  boolean isLogged(String part) {
    return log.stream().anyMatch(line -> line.contains(part));
  }

  boolean isRestored() {
    return isLogged("restored process");
  }

  /** Where the end of the command is recorded. */
  Path finished() {
    return directory.resolve("images/lab-17/finished");
  }

  /** Ends the command, which is not recorded as its end. */
  void assertRequeuedAfter(String signal, Run run) throws Exception {
    Signal.send(signal, launchedPid());
    assertRequeued(run);
  }

  /** Waits for the requeue, which is the first change. */
  void assertRequeued(Run run) throws Exception {
    assertEquals(JobRun.REQUEUED, ended(run, 0), log::toString);
    assertEquals(List.of(REQUEUE), changes(), log::toString);
    assertFalse(Files.exists(finished()), log::toString);
  }

  /** Continues with the next number, and ends. */
  void assertContinues(GpuCheckpoints machine, int restarts, Counter counter, int next)
      throws Exception {
    Run run = restored(machine, restarts);
    assertTrue(Await.until(PATIENCE, this::isRestored), log::toString);
    assertEquals(next, counter.increment());
    endCounter(counter);
    assertEquals(CODE, run.await(), log::toString);
  }
}
