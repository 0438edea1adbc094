package dev.gpuprocess.criu;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.GpuProcess;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.SaveAreaMachine;
import dev.gpuprocess.contract.TmpFs;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.linux.NamelessFile;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.SaveFileMappings;
import dev.gpuprocess.internal.remote.UntraceableException;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.HostMemory;
import dev.gpuprocess.report.Step;
import dev.gpuprocess.report.StepListener;
import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.DumpListener;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * The GPU memory of a suspended process is in files in memory, and goes into files of its own in
 * the image, where the process finds its bytes again.
 */
@RequiresRoot("traces the process")
class MemoryFilesTest {

  private static final int MEBIBYTES = 80;
  private static final DumpOptions OPTIONS = DumpOptions.ofDefaults();
  private static final String MEMORY = "gpu/memory-1.bin";

  /** The memory of a context; the driver hook is not used for less GPU memory. */
  private static final long CONTEXT_BYTES = 256L << 20;

  private static final String BY_CRIU = "CRIU dumps the GPU memory: ";

  @TempDir Path directory;
  private SaveAreaMachine machine;
  private Pattern job;

  @BeforeEach
  void start() throws IOException {
    RealCriu.assume();
    machine =
        SaveAreaMachine.in(
            directory,
            "size=900m",
            SimulatedDriver.builder().memory(2L << 30).contextMemory(CONTEXT_BYTES));
    job = Pattern.launch(MEBIBYTES).on(machine.driver()).notOurChild().start();
  }

  @AfterEach
  void end() {
    if (job != null) {
      job.close();
    }
    if (machine != null) {
      machine.close();
    }
  }

  private Path image() {
    return directory.resolve("image");
  }

  private CheckpointedProcess suspended() {
    return machine.checkpoints().process(job.pid()).suspend();
  }

  private void assertRight() {
    assertEquals("ok " + ((long) MEBIBYTES << 20) + " bytes", job.verify());
  }

  private void kill() {
    job.kill();
    assertTrue(job.awaitExit(Duration.ofSeconds(30)), "its pid is free");
  }

  private long mapped() {
    return SaveFileMappings.bytes(Math.toIntExact(job.pid()));
  }

  /** Returns a file of an image that the process maps. */
  private void assertMapsNoImage() {
    ProcFs.memory(
        job.pid(),
        mapping -> {
          assertFalse(mapping.name().startsWith(image().toString()), mapping.name());
          assertFalse(mapping.name().contains(".partial/"), mapping.name());
        });
  }

  /** A process that is back on its GPU has nothing of its files, and they are gone. */
  private void assertNothingIsTaken() throws IOException {
    assertEquals(List.of(), left(machine.memory().point()));
    await().atMost(20, SECONDS).until(() -> taken() == 0);
  }

  private long taken() {
    return machine.memory().takenBytes();
  }

  private static List<Path> left(Path directory) throws IOException {
    try (Stream<Path> all = Files.list(directory)) {
      return all.toList();
    }
  }

  private static List<String> steps(ProcessImage image) {
    return image.steps().stream().map(Step::name).toList();
  }

  private static Step step(ProcessImage image, String name) {
    return image.steps().stream()
        .filter(each -> each.name().equals(name))
        .findFirst()
        .orElseThrow();
  }

  private static void assertIsInFiles(ProcessImage image) {
    Step step = step(image, "write");
    assertTrue(step.bytes() >= (long) MEBIBYTES << 20, step.toString());
    assertFalse(steps(image).contains("copy to own memory"), steps(image)::toString);
    assertEquals(2, image.manifest().formatVersion());
    assertEquals(1, image.manifest().memoryFiles().size());
    assertTrue(criuBytes(image) < 16 << 20, "CRIU dumped " + criuBytes(image));
  }

  /** The process has anonymous memory instead of the files. */
  private static void assertIsCopied(ProcessImage image, String why) {
    Step step = step(image, "copy to own memory");
    assertTrue(step.bytes() >= (long) MEBIBYTES << 20, step.toString());
    assertTrue(step.note().startsWith(BY_CRIU), step.note());
    assertTrue(step.note().contains(why), step.note());
    assertIsCrius(image);
  }

  private static void assertIsCrius(ProcessImage image) {
    assertFalse(steps(image).contains("write"), steps(image)::toString);
    assertEquals(1, image.manifest().formatVersion());
    assertFalse(Files.exists(image.directory().resolve("gpu")));
    assertTrue(criuBytes(image) >= (long) MEBIBYTES << 20, "CRIU dumped " + criuBytes(image));
  }

  private static long criuBytes(ProcessImage image) {
    return image.manifest().files().entrySet().stream()
        .filter(file -> file.getKey().startsWith("criu/pages-"))
        .mapToLong(Map.Entry::getValue)
        .sum();
  }

  @Test
  void stepsAreTold() throws IOException {
    CheckpointedProcess suspended = suspended();
    List<Mapping> saved = SaveFileMappings.candidates((int) job.pid());
    assertEquals(1, saved.size());
    assertTrue(
        saved.get(0).name().startsWith(machine.memory().point() + "/#"), saved.get(0).name());
    ProcessImage image = suspended.dump(image(), OPTIONS);
    assertIsInFiles(image);
    assertEquals(List.of("prepare", "lock", "checkpoint", "write", "seal", "dump"), steps(image));
    assertNothingIsTaken();
    image.restore().resume();
    assertRight();
  }

  @Test
  void whereItIsNotWantedCriuDumpsTheMemory() throws IOException {
    ProcessImage image =
        suspended().dump(image(), DumpOptions.builder().memoryFiles(false).build());
    assertIsCopied(image, "the options say so");
    assertEquals(
        List.of("prepare", "lock", "checkpoint", "copy to own memory", "seal", "dump"),
        steps(image));
    assertNothingIsTaken();
    machine.checkpoints().open(image()).restore().resume();
    assertRight();
  }

  @Test
  void whatTheDriverHasMappedIsDumpedByCriu() {
    for (GpuCheckpoints each :
        List.of(
            machine.checkpoints().toBuilder().hostMemory(HostMemory.none()).build(),
            machine.checkpoints().toBuilder().driverHook(false).build())) {
      ProcessImage image = each.process(job.pid()).suspend().dump(image(), OPTIONS);
      assertIsCrius(image);
      assertEquals(List.of("lock", "checkpoint", "seal", "dump"), steps(image));
      image.restore().resume();
      assertRight();
      FileTree.remove(image());
    }
  }

  @Test
  @Tag("jdk")
  void aMovedImageIsRestoredAsOftenAsOneLikes() throws IOException {
    ProcessImage image = suspended().dump(image(), OPTIONS);
    assertIsInFiles(image);
    assertFalse(job.isAlive());
    Path moved = Files.createDirectories(directory.resolve("else where/ü")).resolve("moved");
    Files.move(image(), moved);

    for (int i = 0; i < 2; i++) {
      CheckpointedProcess again = machine.checkpoints().open(moved).restore();
      assertTrue(mapped() >= (long) MEBIBYTES << 20, "mapped from the image");
      again.resume();
      assertMapsNoImage();
      assertRight();
      job.touch(i + 2);
      assertRight();
      kill();
    }
  }

  @Test
  void theImageOfARestoredProcessNeedsNoOlderOne() throws IOException {
    suspended().dump(image(), OPTIONS);
    Path second = directory.resolve("second");
    ProcessImage copy = machine.checkpoints().open(image()).restore().dump(second, OPTIONS);
    assertIsInFiles(copy);
    FileTree.remove(image());

    machine.checkpoints().open(second).restore().resume();
    assertRight();
    assertNothingIsTaken();
  }

  /** A tmpfs without free inodes: the copied memory is not in the image twice. */
  @Test
  void filesThatCannotBeNamedAreDumpedByCriu() throws IOException {
    Path point = Files.createDirectory(directory.resolve("full"));
    try (TmpFs full = TmpFs.mount(point, "size=700m,nr_inodes=3")) {
      ProcessImage image =
          machine.checkpoints().toBuilder()
              .hostMemory(HostMemory.in(full.point()))
              .build()
              .process(job.pid())
              .suspend()
              .dump(image(), OPTIONS);
      Step copied = step(image, "copy to own memory");
      assertTrue(copied.note().contains("its files cannot be given a name: "), copied.note());
      assertEquals(List.of(), image.manifest().memoryFiles());
      assertFalse(Files.exists(image().resolve("gpu")));
      image.verify();
      image.restore().resume();
      assertRight();
    }
  }

  /** The restore has read it into memory. */
  @Test
  void aProcessWhoseImageWasRemovedIsDumpedAgain() {
    suspended().dump(image(), OPTIONS);
    Path second = directory.resolve("second");
    CheckpointedProcess again = machine.checkpoints().open(image()).restore();
    FileTree.remove(image());
    assertIsInFiles(again.dump(second, OPTIONS));

    machine.checkpoints().open(second).restore().resume();
    assertRight();
  }

  @Test
  void theImageCanBeRemovedWhileItIsMapped() throws IOException {
    suspended().dump(image(), OPTIONS);
    CheckpointedProcess again = machine.checkpoints().open(image()).restore();
    FileTree.remove(image());
    again.resume();
    assertRight();
  }

  @Test
  void aSnapshotLeavesTheProcessWithoutTheImage() throws IOException {
    ProcessImage image = machine.checkpoints().process(job.pid()).snapshot(image(), OPTIONS);
    assertIsInFiles(image);
    assertMapsNoImage();
    assertRight();
    assertNothingIsTaken();
    kill();
    machine.checkpoints().open(image()).restore().resume();
    assertRight();
  }

  @Test
  void aProcessThatStaysHasItsMemory() throws IOException {
    CheckpointedProcess checkpointed = suspended();
    ProcessImage image = checkpointed.dump(image(), OPTIONS.toBuilder().leaveRunning(true).build());
    assertIsInFiles(image);
    assertMapsNoImage();
    FileTree.remove(image());
    GpuProcess now = machine.checkpoints().inspect(job.pid());
    assertInstanceOf(CheckpointedProcess.class, now).resume();
    assertRight();
    assertNothingIsTaken();
  }

  /** The second one finds what the first one named and hid. */
  @Test
  void aSuspendedProcessIsDumpedTwice() throws IOException {
    CheckpointedProcess checkpointed = suspended();
    DumpOptions staying = OPTIONS.toBuilder().leaveRunning(true).build();
    ProcessImage first = checkpointed.dump(image(), staying);
    assertIsInFiles(first);
    ProcessImage second = checkpointed.dump(directory.resolve("second"), OPTIONS);
    assertIsCopied(second, "has lost its name");
    assertNothingIsTaken();
    for (ProcessImage each : List.of(first, second)) {
      each.restore().resume();
      assertRight();
      kill();
    }
  }

  @Test
  void anImageInTheSameMemoryIsALink() throws IOException {
    Path inMemory = machine.memory().point().resolve("image");
    CheckpointedProcess checkpointed = suspended();
    Mapping mapped = SaveFileMappings.candidates((int) job.pid()).get(0);
    ProcessImage image = checkpointed.dump(inMemory, OPTIONS);
    assertIsInFiles(image);
    Path file = inMemory.resolve(MEMORY);
    assertEquals(mapped.inode(), Files.getAttribute(file, "unix:ino"));
    assertEquals(1, Files.getAttribute(file, "unix:nlink"));
    assertEquals(mapped.addresses().bytes(), Files.size(file));
    assertEquals(List.of(inMemory), left(machine.memory().point()));
    assertTrue(taken() < 2L * (MEBIBYTES << 20), taken() + " bytes are taken");

    for (int i = 0; i < 2; i++) {
      machine.checkpoints().open(inMemory).restore().resume();
      assertRight();
      job.touch(i + 2);
      assertRight();
      kill();
    }
    image.verify();
    FileTree.remove(inMemory);
    assertNothingIsTaken();
  }

  /** The file has a name in the image, and another image must not share it. */
  @Test
  void theImageOfWhatWasRestoredFromTheSameMemoryIsACopy() throws IOException {
    Path first = machine.memory().point().resolve("first");
    suspended().dump(first, OPTIONS);
    Path second = machine.memory().point().resolve("second");
    ProcessImage copy = machine.checkpoints().open(first).restore().dump(second, OPTIONS);
    assertIsInFiles(copy);
    for (Path each : List.of(first, second)) {
      assertEquals(1, Files.getAttribute(each.resolve(MEMORY), "unix:nlink"));
    }
    FileTree.remove(first);
    machine.checkpoints().open(second).restore().resume();
    assertRight();
  }

  /** The file had the name of an image already, which was taken back. */
  @Test
  void whatWasLinkedIntoAnImageThatWasGivenUpIsDumpedAgain() throws IOException {
    Cancellation cancellation = new Cancellation();
    GpuCheckpoints cancelling =
        machine.checkpoints().toBuilder().listener(at("write", cancellation::cancel)).build();
    CheckpointedProcess checkpointed = cancelling.process(job.pid()).suspend();
    Path inMemory = machine.memory().point().resolve("image");
    DumpOptions options = OPTIONS.toBuilder().cancellation(cancellation).build();
    assertThrows(OperationCancelledException.class, () -> checkpointed.dump(inMemory, options));
    assertEquals(List.of(), left(machine.memory().point()));

    ProcessImage image = checkpointed.dump(image(), OPTIONS);
    image.restore().resume();
    assertRight();
  }

  @Test
  void whenCriuRefusesTheProcessHasItsMemory() throws IOException {
    GpuCheckpoints vetoing =
        machine.checkpoints().toBuilder().criu(vetoing(new RpcCriuDriver())).build();
    CheckpointedProcess checkpointed = vetoing.process(job.pid()).suspend();
    assertThrows(RuntimeException.class, () -> checkpointed.dump(image(), OPTIONS));
    assertFalse(Files.exists(image()));
    assertMapsNoImage();
    assertEquals(List.of(), left(machine.memory().point()));

    CheckpointedProcess still =
        assertInstanceOf(CheckpointedProcess.class, machine.checkpoints().inspect(job.pid()));
    assertIsCopied(still.dump(image(), OPTIONS), "has lost its name");
    machine.checkpoints().open(image()).restore().resume();
    assertRight();
  }

  /** Vetoes the dump when CRIU has written everything. */
  private static CriuDriver vetoing(CriuDriver criu) {
    return (CriuDriver)
        Proxy.newProxyInstance(
            CriuDriver.class.getClassLoader(),
            new Class<?>[] {CriuDriver.class},
            (proxy, method, arguments) -> {
              if (method.getName().equals("dump")) {
                arguments[1] =
                    new DumpListener() {
                      @Override
                      public void postDump() {
                        throw new IllegalStateException("it is a test");
                      }
                    };
              }
              try {
                return method.invoke(criu, arguments);
              } catch (InvocationTargetException e) {
                throw e.getCause();
              }
            });
  }

  @Test
  void aDiskThatFillsUpLeavesTheProcessItsMemory() throws IOException {
    Path point = Files.createDirectory(directory.resolve("small"));
    try (TmpFs small = TmpFs.mount(point, "size=260m")) {
      GpuCheckpoints filling =
          machine.checkpoints().toBuilder()
              .listener(at("write", () -> fill(small.point().resolve("other"))))
              .build();
      CheckpointedProcess checkpointed = filling.process(job.pid()).suspend();
      assertReason(
          ImageException.class,
          ImageException.Reason.DISK_FULL,
          () -> checkpointed.dump(small.point().resolve("image"), OPTIONS));
      assertMapsNoImage();
      checkpointed.resume();
      assertRight();
      try (Stream<Path> left = Files.list(small.point())) {
        assertEquals(List.of(small.point().resolve("other")), left.toList());
      }
    }
  }

  /** The memory is in the image once. */
  @Test
  void aDiskWithRoomForTheImageIsLargeEnough() throws IOException {
    Path point = Files.createDirectory(directory.resolve("small"));
    try (TmpFs small = TmpFs.mount(point, "size=%sm".formatted(MEBIBYTES + 40))) {
      ProcessImage image = suspended().dump(small.point().resolve("image"), OPTIONS);
      assertIsInFiles(image);
      image.restore().resume();
      assertRight();
    }
  }

  private static void fill(Path file) {
    try {
      Files.write(file, new byte[220 << 20], StandardOpenOption.CREATE_NEW);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static StepListener at(String step, Runnable action) {
    return new StepListener() {
      @Override
      public void started(String name, int pid) {
        if (name.equals(step)) {
          action.run();
        }
      }
    };
  }

  @Test
  void aCancelledDumpLeavesTheProcessItsMemory() {
    Cancellation cancellation = new Cancellation();
    GpuCheckpoints cancelling =
        machine.checkpoints().toBuilder().listener(at("write", cancellation::cancel)).build();
    CheckpointedProcess checkpointed = cancelling.process(job.pid()).suspend();
    assertThrows(
        OperationCancelledException.class,
        () -> checkpointed.dump(image(), OPTIONS.toBuilder().cancellation(cancellation).build()));
    assertMapsNoImage();
    checkpointed.resume();
    assertRight();
  }

  @Test
  void anAlteredFileIsFoundBeforeTheRestore() throws IOException {
    suspended().dump(image(), OPTIONS);
    Path file = image().resolve(MEMORY);
    byte[] content = Files.readAllBytes(file);
    content[12345678] ^= 1;
    Files.write(file, content);
    ImageException e =
        assertReason(
            ImageException.class,
            ImageException.Reason.CORRUPT,
            () -> machine.checkpoints().open(image()).restore());
    assertTrue(e.getMessage().contains("memory-1.bin"), e.getMessage());
    content[12345678] ^= 1;
    Files.write(file, content);
    Path extra = Files.createFile(image().resolve("gpu/memory-2.bin"));
    assertReason(
        ImageException.class,
        ImageException.Reason.CORRUPT,
        () -> machine.checkpoints().open(image()).verify());
    Files.delete(extra);
    machine.checkpoints().open(image()).restore().resume();
    assertRight();
  }

  @Test
  void anotherControllerKnowsTheFilesFromTheJournal() {
    CheckpointedProcess unused = suspended();
    GpuCheckpoints other = machine.checkpoints().toBuilder().hostMemory(HostMemory.none()).build();
    ProcessImage image =
        assertInstanceOf(CheckpointedProcess.class, other.inspect(job.pid()))
            .dump(image(), OPTIONS);
    assertIsInFiles(image);
    other.open(image()).restore().resume();
    assertRight();
  }

  /**
   * What an earlier checkpoint recorded in the process says nothing of what it maps there later.
   */
  @Test
  void aFileOfTheProgramWhereAnEarlierSaveAreaWas_staysItsOwn()
      throws IOException, UntraceableException {
    CheckpointedProcess earlier = suspended();
    Mapping area = SaveFileMappings.candidates((int) job.pid()).get(0);
    earlier.resume();
    try (NamelessFile own = NamelessFile.create(Path.of("/dev/shm"), 1 << 18)) {
      int mapped = 1 << 16;
      long address =
          RemoteMappings.mapAt(
              area.start(), job.pid(), own.descriptor(), mapped, RemoteMappings.SHARED);
      assertEquals(area.start(), address);
      GpuCheckpoints byTheDriver = machine.checkpoints().toBuilder().driverHook(false).build();
      ProcessImage unused = byTheDriver.process(job.pid()).snapshot(image());
      assertEquals(1 << 18, Files.size(own.path()));
      Mapping after =
          ProcFs.memory(job.pid()).stream()
              .filter(each -> each.contains(address))
              .findFirst()
              .orElseThrow();
      assertEquals("rw-s", after.permissions(), after.toString());
      assertEquals(own.id(), after.file());
    }
    assertRight();
  }

  @Test
  void aChildOfThisJvmIsDumpedTheSameWay() {
    job.close();
    job = Pattern.launch(MEBIBYTES).on(machine.driver()).start();
    ProcessImage image = suspended().dump(image(), OPTIONS);
    assertIsInFiles(image);
    machine.checkpoints().open(image()).restore().resume();
    assertRight();
  }
}
