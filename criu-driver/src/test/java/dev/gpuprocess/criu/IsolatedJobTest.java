package dev.gpuprocess.criu;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static dev.gpuprocess.criu.Trainer.PATIENCE;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.LaunchedProcess;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.Recovered;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.image.ImageProcess;
import dev.gpuprocess.image.ImageProcess.Role;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.options.LaunchOptions;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.lang.ProcessBuilder.Redirect;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.OptionalInt;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Isolated processes, whose image is restored many times at once. */
@RequiresRoot("makes namespaces")
class IsolatedJobTest {

  private static final int COPIES = 8;

  /** A file in the process's own {@code /dev/shm}, so that copies do not share it. */
  private static final Path FILE = Path.of("/dev/shm/count");

  @TempDir Path directory;
  private Trainer trainer;
  private LaunchedProcess job;

  private final List<ProcessIdentity> copies = new ArrayList<>();

  @BeforeEach
  void buildTrainer() {
    RealCriu.assume();
    trainer = new Trainer(directory);
  }

  @AfterEach
  void endAll() throws IOException {
    for (ProcessIdentity copy : copies) {
      ProcessHandle.of(copy.pid())
          .filter(handle -> copy.isAlive())
          .ifPresent(ProcessHandle::destroyForcibly);
      Awaitility.await().atMost(PATIENCE).until(() -> !copy.isAlive());
    }
    if (job != null) {
      job.end(Duration.ZERO);
    }
    if (trainer != null) {
      trainer.close();
    }
  }

  private static Path file(int pid) {
    return Path.of("/proc/" + pid + "/root" + FILE);
  }

  private LaunchedProcess launch() {
    job = trainer.checkpoints.launch(trainer.isolated(FILE, 1).build());
    Trainer.awaitMore(file(job.identity().pid()), 0);
    Trainer.awaitMore(Trainer.loader(file(job.identity().pid()), 1), 0);
    return job;
  }

  @Test
  void oneImageComesBackEightTimesAtOnceBesideTheOriginal() throws Exception {
    RunningProcess process = launch().process();
    int dumped = Trainer.count(file(process.pid()));
    int loaded = Trainer.count(Trainer.loader(file(process.pid()), 1));
    ProcessImage image = process.snapshot(directory.resolve("image"));
    assertTrue(image.manifest().isolated());
    assertEquals(job.identity().pid(), image.manifest().pid());
    assertBothPidsAreNamed(image.manifest());
    ExecutorService threads = Executors.newFixedThreadPool(COPIES);
    try {
      List<Callable<RunningProcess>> restores = new ArrayList<>();
      for (int i = 0; i < COPIES; i++) {
        restores.add(() -> image.restore().resume());
      }
      for (Future<RunningProcess> restored : threads.invokeAll(restores)) {
        copies.add(restored.get().identity());
      }
    } finally {
      threads.shutdown();
    }
    Set<Integer> pids = new HashSet<>();
    copies.forEach(copy -> pids.add(copy.pid()));
    pids.add(job.identity().pid());
    assertEquals(COPIES + 1, pids.size());
    for (int pid : pids) {
      assertTrue(ProcFs.status(pid).get("NSpid").endsWith("\t1"));
      Trainer.awaitMore(file(pid), dumped);
      Trainer.awaitMore(Trainer.loader(file(pid), 1), loaded);
    }
    try (DirectoryStream<Path> entries =
        Files.newDirectoryStream(directory.resolve("state"), "*.process")) {
      assertFalse(entries.iterator().hasNext(), "running processes leave no entry");
    }
  }

  private void assertBothPidsAreNamed(Manifest manifest) {
    List<ImageProcess> processes = manifest.processes();
    assertEquals(1, processes.get(0).pid());
    assertEquals(job.identity().pid(), processes.get(0).controllerPid());
    assertEquals(Role.CUDA, processes.get(0).role());
    assertEquals(1, processes.get(1).parent());
    assertEquals(Role.WORKER, processes.get(1).role());
    assertEquals(
        ProcFs.descendants(job.identity().pid()), List.of(processes.get(1).controllerPid()));
  }

  @Test
  void isolatedJobIsFollowedAndToldHowItEnds() {
    RunningProcess process = launch().process();
    final ProcessIdentity before = process.identity();
    int dumped = Trainer.count(file(before.pid()));
    ProcessImage image = process.suspend().dump(directory.resolve("image"));
    assertTrue(job.isDumped());
    RunningProcess again = image.restore().resume();
    assertEquals(again.identity(), job.identity());
    assertFalse(before.isAlive());
    Trainer.awaitMore(file(again.pid()), dumped);
    assertEquals(OptionalInt.of(3), job.end(PATIENCE).orElseThrow().code());
  }

  /** Only the journal has the pid of the process. */
  @Test
  void restoreWhoseControllerDiedIsRecovered() throws Exception {
    RunningProcess process = launch().process();
    int dumped = Trainer.count(file(process.pid()));
    ProcessImage image = process.snapshot(directory.resolve("image"));
    Path errors = directory.resolve("errors");
    Process restorer =
        new ProcessBuilder(
                TestJvm.command(
                    IsolatedRestorer.class,
                    trainer.machine().toString(),
                    directory.resolve("state").toString(),
                    image.directory().toString()))
            .redirectErrorStream(true)
            .redirectOutput(errors.toFile())
            .start();
    assertTrue(restorer.waitFor(180, TimeUnit.SECONDS));
    assertEquals(IsolatedRestorer.HALTED, restorer.exitValue(), () -> text(errors));
    List<Recovered> recovered = trainer.checkpoints.recover();
    assertEquals(1, recovered.size(), recovered::toString);
    CheckpointedProcess left = recovered.get(0).suspended();
    copies.add(left.identity());
    RunningProcess again = left.resume();
    assertNotEquals(job.identity(), again.identity());
    Trainer.awaitMore(file(again.pid()), dumped);
    assertEquals(List.of(), trainer.checkpoints.recover());
  }

  private static String text(Path file) {
    try {
      return Files.readString(file);
    } catch (IOException e) {
      return e.toString();
    }
  }

  @Test
  void isolatedJobHasPidsProcAndSharedMemoryOfItsOwn() throws IOException {
    LaunchedProcess shell =
        trainer.checkpoints.launch(
            LaunchOptions.builder(
                    "sh", "-c", "echo $$; ls -d /proc/[0-9]*; ls /dev/shm | wc -l; exit 6")
                .isolated(true)
                .dropInheritedGpu(false)
                .environment("a b.c", "1")
                .output(Redirect.PIPE)
                .build());
    String said = new String(shell.output().orElseThrow().readAllBytes(), StandardCharsets.UTF_8);
    List<String> lines = said.lines().toList();
    assertEquals("1", lines.get(0), said);
    assertEquals("/proc/1", lines.get(1), said);
    assertEquals("0", lines.get(lines.size() - 1), said);
    assertTrue(lines.size() <= 5, said);
    assertEquals(OptionalInt.of(6), shell.awaitExit(PATIENCE).orElseThrow().code());
  }

  /** The kernel gives the first process of a namespace no signal that it does not handle. */
  @Test
  void deafJobIsKilledAtOnce() {
    LaunchedProcess deaf =
        trainer.checkpoints.launch(LaunchOptions.builder("sleep", "1000").isolated(true).build());
    assertEquals(OptionalInt.of(9), deaf.end(Duration.ofDays(1)).orElseThrow().signal());
  }

  @Test
  void isolatedJobThatCannotBeStartedIsRefusedAndNothingIsLeft() {
    Set<Integer> before = Set.copyOf(ProcFs.descendants(ProcessHandle.current().pid()));
    assertReason(
        FixAndRetryException.class,
        FixAndRetryException.Reason.LAUNCH_MISSING,
        () ->
            trainer.checkpoints.launch(
                LaunchOptions.builder("no-such-program").isolated(true).build()));
    Set<Integer> after = new HashSet<>(ProcFs.descendants(ProcessHandle.current().pid()));
    after.removeAll(before);
    assertEquals(Set.of(), after);
  }
}
