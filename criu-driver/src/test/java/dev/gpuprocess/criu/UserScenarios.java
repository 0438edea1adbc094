package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.contract.PlainImage;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.Fate;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.image.DumpedProcess;
import dev.gpuprocess.internal.linux.CurrentUser;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.HostMemory;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.report.Diagnosis;
import dev.gpuprocess.report.ListedProcess;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.Step;
import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.DumpListener;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.api.parallel.ResourceAccessMode;
import org.junit.jupiter.api.parallel.ResourceLock;

/**
 * What is another matter when CRIU is root's and this JVM is not: it can neither read what CRIU
 * writes nor end it.
 */
@NullUnmarked
@Execution(ExecutionMode.CONCURRENT)
class UserScenarios {

  /** Processes of this user on a GPU of any simulated machine. */
  private static final String PROCESSES = "processes of this user";

  @TempDir Path directory;
  private DumpDirectories site;
  private final Cancellation cancellation = new Cancellation();

  /** The command that the environment names. */
  static CriuDriver throughCommand() {
    return RpcCriuDriver.through(command());
  }

  static List<String> command() {
    return List.of(System.getenv(CriuLocator.COMMAND_VARIABLE).split(" "));
  }

  @BeforeEach
  void makeSite() {
    assertFalse(CurrentUser.isRoot());
    site = DumpDirectories.in(directory.resolve("site"), throughCommand());
  }

  /** Nor what CRIU has begun. */
  @AfterEach
  void nothingOfRootsIsLeft() {
    Workload.await(
        () -> AnotherUser.argumentsWith(directory + "/").isEmpty(),
        "all of root's for this test to end");
  }

  private static void assertCancelled(
      CompletableFuture<Void> cancelled, Fate fate, String criu, Executable verb) {
    OperationCancelledException e = assertThrows(OperationCancelledException.class, verb);
    cancelled.join();
    assertEquals(fate, e.failure().fate(), e.getMessage());
    assertTrue(e.getMessage().contains(criu), e.getMessage());
  }

  /** Nothing more is needed to read and remove it. */
  private static void assertReadable(Path tree) throws IOException {
    try (Stream<Path> files = Files.walk(tree)) {
      for (Path file : files.toList()) {
        assertTrue(Files.isReadable(file), "" + file);
        if (Files.isDirectory(file)) {
          assertEquals(Files.getAttribute(Path.of("/proc/self"), "unix:uid"), owner(file));
        }
      }
    }
  }

  private static Object owner(Path file) throws IOException {
    return Files.getAttribute(file, "unix:uid", LinkOption.NOFOLLOW_LINKS);
  }

  @Test
  void whatRootWrites_isOursToRead() throws IOException {
    try (Workload workload = Workload.counter(directory, 2)) {
      site.dump(workload.identity(), DumpDirectories.dump().build());
      assertReadable(site.images());
      assertReadable(site.work());
      assertEquals(0, owner(site.images("inventory").get(0)), "it is root's");
      assertEquals(
          List.of(workload.pid()),
          site.driver().describe(site.images()).processes().stream()
              .map(DumpedProcess::pid)
              .toList());
      ProcessIdentity restored =
          site.restore(workload.pid(), DumpDirectories.shellJob().build()).process();
      try {
        workload.assertGoesOn();
        assertReadable(site.work());
      } finally {
        Workload.end(restored);
      }
    }
  }

  /** The first process is root's: nothing that it has open can be read. */
  @Test
  void doctor_saysNothingOfAmdGpus_whereAnotherUsersProcessCannotBeRead() {
    try (SimulatedDriver machine = SimulatedDriver.create()) {
      GpuCheckpoints checkpoints =
          GpuCheckpoints.builder()
              .cuda(machine.directory())
              .criu(site.driver())
              .stateDirectory(directory.resolve("state"))
              .build();
      Diagnosis diagnosis = checkpoints.doctor(1);
      assertTrue(
          diagnosis.findings().stream().noneMatch(found -> found.toString().contains("AMD")),
          diagnosis::toString);
      assertFalse(diagnosis.isHealthy());
    }
  }

  @Test
  void anImageThatMayNotBeRead_isNotCalledMissing() throws IOException {
    Path locked = Files.createDirectory(directory.resolve("locked"));
    Path inside = Files.createDirectory(locked.resolve("image"));
    Files.createFile(inside.resolve("manifest.json"));
    GpuCheckpoints checkpoints = GpuCheckpoints.builder().build();
    for (Path closed : List.of(inside, locked)) {
      Files.setPosixFilePermissions(closed, PosixFilePermissions.fromString("---------"));
      ImageException e = assertThrows(ImageException.class, () -> checkpoints.open(inside));
      assertEquals(
          inside
              + " may not be read by this user, so it is not known whether it is an image: read it"
              + " as root or as its owner",
          e.getMessage());
      if (closed.equals(inside)) {
        String told = checkpoints.store(locked).list().toString();
        assertTrue(told.contains("may not be read by this user"), told);
      }
      Files.setPosixFilePermissions(closed, PosixFilePermissions.fromString("rwx------"));
    }
  }

  @Test
  @ResourceLock(PROCESSES)
  void processes_listsWhatThisUserSees_amongThoseOfOthers() throws IOException {
    try (SimulatedDriver machine = SimulatedDriver.create();
        Counter counter = Counter.start(machine)) {
      GpuCheckpoints checkpoints =
          GpuCheckpoints.builder()
              .cuda(machine.directory())
              .stateDirectory(directory.resolve("state"))
              .build();
      try (CheckpointedProcess suspended = checkpoints.process(counter.pid()).suspend()) {
        List<ListedProcess> all = checkpoints.processes();
        assertEquals(
            List.of(suspended.identity()), all.stream().map(ListedProcess::identity).toList());
        ListedProcess found = all.get(0);
        assertEquals(ProcessState.CHECKPOINTED, found.state());
        assertEquals(Integer.toString(CurrentUser.get().effectiveUid()), found.owner());
        assertEquals(found.suspended(), checkpoints.suspended().get(0));
      }
    }
  }

  @Test
  void anImage_isVerified_andRestored() throws IOException {
    Path image = directory.resolve("image");
    try (Workload workload = Workload.counter(directory, 2)) {
      PlainImage.dump(site.driver(), workload.identity(), image, DumpDirectories.dump().build());
      assertReadable(image);
      ProcessIdentity restored =
          PlainImage.restore(site.driver(), image, site.work(), DumpDirectories.shellJob().build())
              .process();
      try {
        workload.assertGoesOn();
      } finally {
        Workload.end(restored);
      }
    }
  }

  @Test
  void aDump_cancelledWhileRootIsAtIt_letsTheProcessRun() {
    try (Workload workload = Workload.counter(directory, 2)) {
      DumpOptions options = DumpDirectories.dump().cancellation(cancellation).build();
      CompletableFuture<Void> cancelled =
          Canceller.when(
              cancellation, () -> !site.images("pages-").isEmpty(), "the memory to be written");
      assertCancelled(
          cancelled,
          Fate.RUNNING_AGAIN,
          "was cancelled",
          () ->
              site.dump(
                  workload.identity(),
                  options,
                  new DumpListener() {
                    @Override
                    public void postDump() {
                      cancelled.join(); // the canceller may be slower than CRIU
                    }
                  }));
      workload.assertGoesOn();
    }
  }

  /** With truncated pages CRIU would never end. */
  @Test
  void aRestore_cancelledWhileRootIsAtIt_leavesNothing_andCanBeRepeated() throws IOException {
    try (Workload workload = Workload.counter(directory, 2)) {
      site.dump(workload.identity(), DumpDirectories.dump().build());
      Path pages = site.images("pages-").get(0);
      byte[] whole = Files.readAllBytes(pages);
      replace(pages, Arrays.copyOf(whole, whole.length / 2));
      RestoreOptions options =
          DumpDirectories.shellJob().criu(c -> c.logLevel(1)).cancellation(cancellation).build();
      CompletableFuture<Void> cancelled =
          Canceller.when(
              cancellation,
              () -> ProcessIdentity.of(workload.pid()).isPresent(),
              "a half-restored process");
      assertCancelled(
          cancelled,
          Fate.HALF_RESTORED_REMOVED,
          "CRIU was ended",
          () -> site.restore(workload.pid(), options));
      Workload.await(() -> ProcessIdentity.of(workload.pid()).isEmpty(), "the pid to be free");
      replace(pages, whole);
      Workload.end(site.restore(workload.pid(), DumpDirectories.shellJob().build()).process());
    }
  }

  /** The directory is ours, the file is not. */
  private static void replace(Path file, byte[] content) throws IOException {
    Files.delete(file);
    Files.write(file, content);
  }

  /**
   * Goes to CRIU by a program of root's that waits for a file, and before it does something else.
   */
  private DumpDirectories slowly(Path released, String before) {
    List<String> command = new ArrayList<>(command());
    String criu = command.remove(command.size() - 1);
    String text =
        """
        #!/bin/sh
        if [ -e %s ]; then
          %s
          until [ -e %s ]; do sleep 0.01; done
        fi
        exec %s "$@"
        """
            .formatted(armed(), before, released, criu);
    command.add(FakeCriu.write(directory.resolve("slow"), text).toString());
    RpcCriuDriver slow = RpcCriuDriver.through(command);
    slow.version();
    FakeCriu.write(armed(), "");
    return site.with(slow);
  }

  private void assertCancelledBeforeItsFirstStage(
      Workload workload, DumpDirectories slow, String criu) {
    CompletableFuture<Void> cancelled =
        Canceller.when(cancellation, () -> Files.exists(begun()), "root to begin");
    DumpOptions options = DumpDirectories.dump().cancellation(cancellation).build();
    assertCancelled(
        cancelled, Fate.RUNNING_AGAIN, criu, () -> slow.dump(workload.identity(), options));
    workload.assertGoesOn();
  }

  /** From when on it is slow. */
  private Path armed() {
    return directory.resolve("armed");
  }

  private Path begun() {
    return directory.resolve("begun");
  }

  @Test
  void aDump_cancelledBeforeItsFirstStage_isAskedToEnd() {
    DumpDirectories slow = slowly(directory.resolve("never"), ": > " + begun());
    try (Workload workload = Workload.counter(directory)) {
      assertCancelledBeforeItsFirstStage(workload, slow, "CRIU was ended");
    }
  }

  @Test
  void aDump_cancelledBeforeItsFirstStage_thatDoesNotEnd_isRefusedThere() {
    Path released = directory.resolve("released");
    DumpDirectories slow = slowly(released, "trap '' TERM; : > " + begun());
    try (Workload workload = Workload.counter(directory)) {
      assertCancelledBeforeItsFirstStage(
          workload, slow, "could not be ended, and is refused at its next step");
      FakeCriu.write(released, "");
      Workload.await(
          () -> AnotherUser.argumentsWith(directory + "/slow").isEmpty(), "CRIU to be refused");
      workload.assertGoesOn();
    }
  }

  /**
   * A user may signal its sudo. With a terminal between them CRIU dies with sudo, otherwise it
   * continues.
   */
  @Test
  void aCommandThatIsKilledWhenTheImagesAreComplete_losesNothing() {
    int self = Math.toIntExact(ProcessHandle.current().pid());
    try (Workload workload = Workload.counter(directory, 2)) {
      try {
        site.dump(
            workload.identity(),
            DumpDirectories.dump().build(),
            new DumpListener() {
              @Override
              public void postDump() {
                killCommandOf(workload.pid(), self);
              }
            });
        assertFalse(workload.identity().isAlive());
        Workload.end(site.restore(workload.pid(), DumpDirectories.shellJob().build()).process());
      } catch (CriuException e) {
        assertEquals(Fate.RUNNING_AGAIN, e.failure().fate(), e.getMessage());
        workload.assertGoesOn();
      }
    }
  }

  /** The child of ours that has the tracer of the process below it. */
  private static void killCommandOf(int pid, int self) {
    int next = Integer.parseInt(ProcFs.status(pid).get("TracerPid"));
    int parent = ProcFs.stat(next).orElseThrow().parent();
    while (parent != self) {
      next = parent;
      parent = ProcFs.stat(next).orElseThrow().parent();
    }
    ProcessHandle.of(next).orElseThrow().destroyForcibly();
  }

  @Test
  void theCommandInTheEnvironment_isUsed() {
    assertFalse(new CriuFinder(new CriuLocator()).find("test").command().direct());
  }

  @Test
  void theStateDirectory_isNotThatOfAnotherWithoutAName() throws IOException {
    Path standard = GpuCheckpoints.standard().stateDirectory();
    Object self = Files.getAttribute(Path.of("/proc/self"), "unix:uid");
    String name = System.getProperty("user.name");
    assertTrue(
        List.of("gpuprocess-" + self, "gpuprocess-" + name).contains("" + standard.getFileName()),
        standard::toString);
  }

  @Test
  @ResourceLock(value = PROCESSES, mode = ResourceAccessMode.READ)
  void theMainJob_isDone() throws IOException {
    try (SimulatedDriver machine = SimulatedDriver.create();
        Counter counter = Counter.start(machine)) {
      GpuCheckpoints checkpoints = GpuCheckpoints.builder().cuda(machine.directory()).build();
      Path image = directory.resolve("image");
      assertEquals(101, counter.increment());
      CheckpointedProcess suspended = checkpoints.process(counter.pid()).suspend();
      Diagnosis diagnosis = checkpoints.doctor(counter.pid(), image, DumpOptions.ofDefaults());
      assertEquals(List.of(), diagnosis.problems(), diagnosis::toString);
      ProcessImage dumped = suspended.dump(image);
      assertFalse(counter.isAlive());
      assertReadable(image);
      dumped.verify();
      RunningProcess again = checkpoints.open(image).restore().resume();
      assertEquals(counter.pid(), again.pid());
      assertEquals(102, counter.increment());
    }
  }

  /** A CRIU started by a command cannot get the files, so it dumps the memory. */
  @Test
  @ResourceLock(value = PROCESSES, mode = ResourceAccessMode.READ)
  void memoryInFilesOfTheUser_isDumpedByCriu() throws IOException {
    try (SimulatedDriver machine =
            SimulatedDriver.builder().memory(2L << 30).contextMemory(256L << 20).create();
        Counter counter = Counter.launch().on(machine).notOurChild().start()) {
      GpuCheckpoints checkpoints =
          GpuCheckpoints.builder()
              .cuda(machine.directory())
              .hostMemory(HostMemory.in(Path.of("/dev/shm")))
              .stateDirectory(directory.resolve("state"))
              .build();
      assertEquals(101, counter.increment());
      CheckpointedProcess suspended = checkpoints.process(counter.pid()).suspend();
      String note = suspended.steps().get(2).note();
      assertTrue(note.endsWith("into prepared memory"), note);
      ProcessImage dumped = suspended.dump(directory.resolve("image"));
      List<String> steps = dumped.steps().stream().map(Step::name).toList();
      assertEquals(
          List.of("prepare", "lock", "checkpoint", "copy to own memory", "seal", "dump"), steps);
      dumped.restore().resume();
      assertEquals(102, counter.increment());
    }
  }
}
