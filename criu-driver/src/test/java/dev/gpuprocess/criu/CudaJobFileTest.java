package dev.gpuprocess.criu;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static dev.gpuprocess.criu.Trainer.PATIENCE;
import static dev.gpuprocess.criu.Trainer.awaitMore;
import static dev.gpuprocess.criu.Trainer.count;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.LaunchedProcess;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.proc.Environment;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.options.LaunchOptions;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * The job file of driver 590, with a job of two CUDA processes. The simulated driver refuses a
 * controller that names another file, or a copy that is not as the checkpoints left it.
 */
@RequiresRoot("is the parent of what CRIU restores, and makes namespaces")
class CudaJobFileTest {

  private static final int DRIVER_590 = 13010;
  private static final String VARIABLE = "CUDA_CHECKPOINT_JOB_FILE";
  private static final String BOTH = "\"$0\" \"$1\" 0 & \"$0\" \"$2\" 0 & wait";

  @TempDir Path directory;
  private Trainer trainer;
  private LaunchedProcess job;
  private final List<ProcessIdentity> roots = new ArrayList<>();

  @BeforeEach
  void buildTrainer() {
    RealCriu.assume();
    trainer = new Trainer(directory, DRIVER_590);
  }

  @AfterEach
  void endAll() {
    roots.forEach(CudaJobFileTest::end);
    if (job != null) {
      job.end(Duration.ZERO);
    }
    if (trainer != null) {
      trainer.close();
    }
  }

  private static void end(ProcessIdentity root) {
    List<Integer> all = root.isAlive() ? tree(root) : List.of();
    all.forEach(pid -> ProcessHandle.of(pid).ifPresent(ProcessHandle::destroyForcibly));
    awaitReaped(all);
  }

  private static List<Integer> tree(ProcessIdentity root) {
    return Stream.concat(Stream.of(root.pid()), ProcFs.descendants(root.pid()).stream()).toList();
  }

  /** Waits until init has reaped the orphans. */
  private static void awaitReaped(List<Integer> pids) {
    Awaitility.await()
        .atMost(PATIENCE)
        .until(() -> pids.stream().allMatch(pid -> ProcFs.stat(pid).isEmpty()));
  }

  private Path one() {
    return directory.resolve("one");
  }

  private Path two() {
    return directory.resolve("two");
  }

  private void launch(LaunchOptions.Builder options) {
    job = trainer.checkpoints.launch(options.build());
  }

  private void launch() {
    launch(trainer.script(BOTH, one(), two()));
    awaitBothGoOn(one(), two());
  }

  private static void awaitBothGoOn(Path one, Path two) {
    awaitMore(one, Files.exists(one) ? count(one) : 0);
    awaitMore(two, Files.exists(two) ? count(two) : 0);
  }

  private Path files() {
    return directory.resolve("state/jobs.d");
  }

  /** That of the job. */
  private Path file() {
    return Path.of(Environment.of(job.identity().pid(), Set.of(VARIABLE)).get(VARIABLE));
  }

  private static List<Path> in(Path directory) throws IOException {
    try (Stream<Path> files = Files.list(directory)) {
      return files.toList();
    }
  }

  @Test
  void jobOfTwoIsSuspendedAndResumedWithItsFileWhichEndsWithIt() throws IOException {
    launch();
    assertEquals(List.of(file()), in(files()));
    assertEquals("rw-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(file())));
    final byte[] before = Files.readAllBytes(file());
    CheckpointedProcess parked = job.process().suspend();
    assertEquals(2, parked.members().size());
    final byte[] away = Files.readAllBytes(file());
    assertEquals(before.length, away.length);
    assertFalse(Arrays.equals(before, away));

    Files.write(file(), before);
    assertThrows(GpuCheckpointException.class, parked::resume);
    Files.write(file(), away);
    parked.resume();
    awaitBothGoOn(one(), two());
    assertEquals(List.of(), trainer.checkpoints.recover());
    assertEquals(1, in(files()).size(), "it is used");
    job.end(PATIENCE);
    assertEquals(List.of(), in(files()));
  }

  @Test
  void twoJobsAreMovedAtOnceEachWithItsOwnFile() throws IOException {
    launch();
    Path three = directory.resolve("three");
    Path four = directory.resolve("four");
    LaunchedProcess other = trainer.checkpoints.launch(trainer.script(BOTH, three, four).build());
    try {
      awaitBothGoOn(three, four);
      assertEquals(2, in(files()).size());
      List<CompletableFuture<RunningProcess>> moves =
          Stream.of(job, other)
              .map(each -> CompletableFuture.supplyAsync(() -> each.process().suspend().resume()))
              .toList();
      moves.forEach(CompletableFuture::join);
      awaitBothGoOn(one(), two());
      awaitBothGoOn(three, four);
    } finally {
      other.end(Duration.ZERO);
    }
  }

  @Test
  void imageCarriesTheFileAndIsRestoredTwice() throws IOException {
    launch();
    final Path file = file();
    ProcessImage image = job.process().suspend().dump(directory.resolve("image"));
    final Path carried = image.directory().resolve("criu/carried.txt");
    final byte[] kept = Files.readAllBytes(carried);
    assertTrue(Files.readString(carried).matches("(?s).*cuda-job 0:0:[0-9,]* 600 .*"));

    image.restore().resume();
    assertFalse(job.isDumped());
    awaitBothGoOn(one(), two());
    assertEquals(List.of(file), in(files()));
    // What the driver has written there since is of no use to the image.
    job.process().suspend().resume();
    List<Integer> pids = tree(job.identity());
    job.end(PATIENCE);
    assertEquals(List.of(), in(files()));
    awaitReaped(pids);
    // They have come further than the image, from which the job counts again.
    Files.delete(one());
    Files.delete(two());

    RunningProcess again = image.restore().resume();
    roots.add(again.identity());
    awaitBothGoOn(one(), two());
    assertArrayEquals(kept, Files.readAllBytes(carried));
    image.verify();
    assertEquals(List.of(), trainer.checkpoints.recover());
    assertEquals(List.of(file), in(files()));
    end(again.identity());
    assertEquals(List.of(), trainer.checkpoints.recover());
    assertEquals(List.of(), in(files()), "a recovery removes it when no process uses it");
  }

  /** Each copy has its own file, in a directory that CRIU restores. */
  @Test
  void isolatedJobIsRestoredTwiceBesideTheOriginal() throws IOException {
    Path one = Path.of("/dev/shm/one");
    Path two = Path.of("/dev/shm/two");
    launch(trainer.isolatedScript(BOTH, one, two));
    int pid = job.identity().pid();
    awaitBothGoOn(seen(pid, one), seen(pid, two));
    assertTrue(file().startsWith("/dev/shm"));
    ProcessImage image = job.process().snapshot(directory.resolve("image"));
    for (int copy = 0; copy < 2; copy++) {
      roots.add(image.restore().resume().identity());
    }
    for (ProcessIdentity root : List.of(roots.get(0), roots.get(1), job.identity())) {
      trainer.checkpoints.process(root.pid()).suspend().resume();
      awaitBothGoOn(seen(root.pid(), one), seen(root.pid(), two));
    }
    assertFalse(Files.exists(files()));
  }

  private static Path seen(int pid, Path path) {
    return Path.of("/proc/" + pid + "/root" + path);
  }

  @Test
  void usersOwnFileIsUsedAndNothingElseInItsPlaceIsOverwritten() throws IOException {
    Path mine = Files.createFile(directory.resolve("mine"));
    launch(trainer.script(BOTH, one(), two()).environment(VARIABLE, mine.toString()));
    awaitBothGoOn(one(), two());
    assertFalse(Files.exists(files()));
    assertTrue(Files.size(mine) > 0);
    ProcessImage image = job.process().suspend().dump(directory.resolve("image"));
    Files.delete(mine);
    Files.createDirectory(mine);
    ImageException e =
        assertReason(ImageException.class, ImageException.Reason.JOB_FILE, image::restore);
    assertTrue(e.getMessage().contains(mine.toString()), e.getMessage());
    Files.delete(mine);
    Files.writeString(mine, "left from an earlier life");
    image.restore().resume();
    awaitBothGoOn(one(), two());
    job.end(PATIENCE);
    assertTrue(Files.exists(mine));
  }

  @Test
  void fileThatCannotBeCarriedIsRefusedBeforeTheJobIsTouched() throws IOException {
    Path real = Files.createFile(directory.resolve("real"));
    Path link = Files.createSymbolicLink(directory.resolve("link"), real);
    launch(trainer.script(BOTH, one(), two()).environment(VARIABLE, link.toString()));
    awaitBothGoOn(one(), two());
    final byte[] before = Files.readAllBytes(real);
    RunningProcess running = job.process();
    ImageException e =
        assertReason(
            ImageException.class,
            ImageException.Reason.JOB_FILE,
            () -> running.snapshot(directory.resolve("image")));
    assertTrue(e.getMessage().contains(link.toString()), e.getMessage());
    assertArrayEquals(before, Files.readAllBytes(real), "no checkpoint was tried");
    job.process().suspend().resume();
    awaitBothGoOn(one(), two());
  }

  @Test
  void jobWithoutTheVariableHasNoFileWhereThatIsWanted() {
    launch(trainer.script(BOTH, one(), two()).removeEnvironment(VARIABLE));
    awaitBothGoOn(one(), two());
    assertFalse(Files.exists(files()));
    job.process().suspend().resume();
  }

  @Test
  void driver580HasNoneOfThis() throws IOException {
    trainer.close();
    trainer = new Trainer(Files.createDirectory(directory.resolve("580")), 13000);
    launch();
    assertEquals(Set.of(), Environment.of(job.identity().pid(), Set.of(VARIABLE)).keySet());
    assertFalse(Files.exists(directory.resolve("580/state/jobs.d")));
    job.process().suspend().resume();
    awaitBothGoOn(one(), two());
  }
}
