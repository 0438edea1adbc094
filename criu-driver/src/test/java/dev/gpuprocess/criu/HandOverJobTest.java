package dev.gpuprocess.criu;

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
import dev.gpuprocess.contract.TmpFs;
import dev.gpuprocess.cuda.jnr.LibCuda;
import dev.gpuprocess.cuda.jnr.LibNvml;
import dev.gpuprocess.error.DiskFullException;
import dev.gpuprocess.error.ImageCorruptException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.internal.proc.HandedOver;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.progress.Step;
import dev.gpuprocess.progress.StepListener;
import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.VetoException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileTime;
import java.time.Duration;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * The save area goes into a file of its own in the image, and the process finds its bytes there.
 */
@Tag("jdk")
@RequiresRoot("traces the process")
class HandOverJobTest {

  private static final int MEBIBYTES = 80;
  private static final DumpOptions HAND_OVER = DumpOptions.builder().build();
  private static final String MEMORY = "gpu/memory-1.bin";

  @TempDir Path directory;
  private SimulatedDriver machine;
  private GpuCheckpoints checkpoints;
  private Pattern job;

  @BeforeEach
  void start() {
    RealCriu.assume();
    machine = SimulatedDriver.builder().memory(1L << 30).create();
    checkpoints =
        GpuCheckpoints.builder()
            .cuda(LibCuda.in(machine.directory()), LibNvml.in(machine.directory()))
            .stateDirectory(directory.resolve("state"))
            .build();
    job = Pattern.launch(MEBIBYTES).on(machine).notOurChild().start();
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
    return checkpoints.process(job.pid()).suspend();
  }

  private void assertRight() {
    assertEquals("ok " + ((long) MEBIBYTES << 20) + " bytes", job.verify());
  }

  private void kill() {
    job.kill();
    assertTrue(job.awaitExit(Duration.ofSeconds(30)), "its pid is free");
  }

  private long mapped() {
    return HandedOver.bytes(Math.toIntExact(job.pid()));
  }

  /** Anything of an image that the process maps, such as the rest of a failed one. */
  private void assertMapsNoImage() {
    ProcFs.memory(
        job.pid(), mapping -> assertFalse(mapping.name().contains("memory-1.bin"), mapping.name()));
  }

  private static void assertHandedOver(ProcessImage image) {
    Step step =
        image.steps().stream().filter(each -> each.name().equals("hand over")).findFirst().get();
    assertTrue(step.bytes() >= (long) MEBIBYTES << 20, step.toString());
    assertFalse(step.note().contains("CRIU"), step.note());
    assertEquals(Manifest.FORMAT_WITH_MEMORY, image.manifest().formatVersion());
    assertTrue(criuBytes(image) < 16 << 20, "CRIU dumped " + criuBytes(image));
  }

  private static void assertNotHandedOver(ProcessImage image, String why) {
    Step step =
        image.steps().stream().filter(each -> each.name().equals("hand over")).findFirst().get();
    assertEquals(0, step.bytes());
    assertTrue(step.note().startsWith("CRIU dumps it: "), step.note());
    assertTrue(step.note().contains(why), step.note());
    assertEquals(Manifest.FORMAT, image.manifest().formatVersion());
    assertFalse(Files.exists(image.directory().resolve("gpu")));
  }

  @Test
  void itIsNotDoneWhereItIsNotWanted() {
    ProcessImage image = suspended().dump(image(), DumpOptions.builder().handOver(false).build());
    assertEquals(Manifest.FORMAT, image.manifest().formatVersion());
    assertEquals(
        List.of("lock", "checkpoint", "seal", "dump"),
        image.steps().stream().map(Step::name).toList());
    checkpoints.open(image()).restore().resume();
    assertRight();
  }

  private static long criuBytes(ProcessImage image) {
    return image.manifest().files().stream()
        .filter(file -> file.path().startsWith("criu/pages-"))
        .mapToLong(file -> file.bytes())
        .sum();
  }

  @Test
  void aMovedImageIsRestoredAsOftenAsOneLikes() throws IOException {
    ProcessImage image = suspended().dump(image(), HAND_OVER);
    assertHandedOver(image);
    assertFalse(job.isAlive());
    Path moved = Files.createDirectories(directory.resolve("else where/ü")).resolve("moved");
    Files.move(image(), moved);

    for (int i = 0; i < 2; i++) {
      CheckpointedProcess again = checkpoints.open(moved).restore();
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
    suspended().dump(image(), HAND_OVER);
    Path second = directory.resolve("second");
    CheckpointedProcess again = checkpoints.open(image()).restore();
    FileTree.remove(image());
    // Also when it was not asked for: CRIU would refer to a file that is gone.
    ProcessImage copy = again.dump(second);
    assertHandedOver(copy);

    checkpoints.open(second).restore().resume();
    assertRight();
  }

  @Test
  void theImageCanBeRemovedWhileItIsMapped() throws IOException {
    suspended().dump(image(), HAND_OVER);
    CheckpointedProcess again = checkpoints.open(image()).restore();
    FileTree.remove(image());
    again.resume();
    assertRight();
  }

  /** An image that is superseded loses its name; what a process maps of it stays as it is. */
  @Test
  void anImageThatIsMappedCanBeSuperseded() throws IOException {
    suspended().dump(image(), HAND_OVER);
    checkpoints.open(image()).restore().dump(directory.resolve("newer"), HAND_OVER);
    assertTrue(job.awaitExit(Duration.ofSeconds(30)), "its pid is free");
    CheckpointedProcess again = checkpoints.open(image()).restore();
    Path link = Files.createLink(directory.resolve("link"), image().resolve(MEMORY));
    FileTime written = Files.getLastModifiedTime(link);
    long bytes = Files.size(link);

    assertEquals(List.of(image()), checkpoints.open(directory.resolve("newer")).removeOlder(1));

    assertFalse(Files.exists(image()));
    assertEquals(bytes, Files.size(link));
    assertEquals(written, Files.getLastModifiedTime(link));
    assertTrue(mapped() >= (long) MEBIBYTES << 20, "mapped from the image that was removed");
    again.resume();
    assertRight();
  }

  @Test
  void aSnapshotLeavesTheProcessWithoutTheImage() {
    ProcessImage image = checkpoints.process(job.pid()).snapshot(image(), HAND_OVER);
    assertHandedOver(image);
    assertMapsNoImage();
    assertRight();
    kill();
    checkpoints.open(image()).restore().resume();
    assertRight();
  }

  @Test
  void aProcessThatStaysHasItsMemoryBack() throws IOException {
    CheckpointedProcess checkpointed = suspended();
    ProcessImage image =
        checkpointed.dump(image(), HAND_OVER.toBuilder().leaveRunning(true).build());
    assertHandedOver(image);
    assertMapsNoImage();
    GpuProcess now = checkpoints.inspect(job.pid());
    assertInstanceOf(CheckpointedProcess.class, now).resume();
    assertRight();
  }

  @Test
  void whenCriuRefusesTheProcessHasItsMemoryBack() {
    GpuCheckpoints vetoing = checkpoints.toBuilder().criu(vetoing(new RpcCriuDriver())).build();
    CheckpointedProcess checkpointed = vetoing.process(job.pid()).suspend();
    assertThrows(RuntimeException.class, () -> checkpointed.dump(image(), HAND_OVER));
    assertFalse(Files.exists(image()));
    assertMapsNoImage();

    CheckpointedProcess still =
        assertInstanceOf(CheckpointedProcess.class, checkpoints.inspect(job.pid()));
    assertHandedOver(still.dump(image(), HAND_OVER));
    checkpoints.open(image()).restore().resume();
    assertRight();
  }

  /** Refuses when CRIU has written everything. */
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
                      public void postDump() throws VetoException {
                        throw new VetoException("it is a test");
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
    try (TmpFs small = TmpFs.mount(point, "size=160m")) {
      GpuCheckpoints filling =
          checkpoints.toBuilder()
              .listener(at("hand over", () -> fill(small.point().resolve("other"))))
              .build();
      CheckpointedProcess checkpointed = filling.process(job.pid()).suspend();
      assertThrows(
          DiskFullException.class,
          () -> checkpointed.dump(small.point().resolve("image"), HAND_OVER));
      assertMapsNoImage();
      checkpointed.resume();
      assertRight();
      try (Stream<Path> left = Files.list(small.point())) {
        assertEquals(List.of(small.point().resolve("other")), left.toList());
      }
    }
  }

  private static void fill(Path file) {
    try {
      Files.write(file, new byte[120 << 20], StandardOpenOption.CREATE_NEW);
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
        checkpoints.toBuilder().listener(at("hand over", cancellation::cancel)).build();
    CheckpointedProcess checkpointed = cancelling.process(job.pid()).suspend();
    assertThrows(
        OperationCancelledException.class,
        () -> checkpointed.dump(image(), HAND_OVER.toBuilder().cancellation(cancellation).build()));
    assertMapsNoImage();
    checkpointed.resume();
    assertRight();
  }

  @Test
  void anAlteredFileIsFoundBeforeTheRestore() throws IOException {
    suspended().dump(image(), HAND_OVER);
    Path file = image().resolve(MEMORY);
    byte[] content = Files.readAllBytes(file);
    content[12345678] ^= 1;
    Files.write(file, content);
    ImageCorruptException e =
        assertThrows(ImageCorruptException.class, () -> checkpoints.open(image()).restore());
    assertTrue(e.getMessage().contains("memory-1.bin"), e.getMessage());
    content[12345678] ^= 1;
    Files.write(file, content);
    Path extra = Files.createFile(image().resolve("gpu/memory-2.bin"));
    assertThrows(ImageCorruptException.class, () -> checkpoints.open(image()).verify());
    Files.delete(extra);
    checkpoints.open(image()).restore().resume();
    assertRight();
  }

  @Test
  void anotherControllerKnowsTheAreaFromTheJournal() {
    CheckpointedProcess unused = suspended();
    GpuCheckpoints other = checkpoints.toBuilder().build();
    ProcessImage image =
        assertInstanceOf(CheckpointedProcess.class, other.inspect(job.pid()))
            .dump(image(), HAND_OVER);
    assertHandedOver(image);
    other.open(image()).restore().resume();
    assertRight();
  }

  @Test
  void aChildOfThisJvmIsDumpedByCriuAlone() {
    job.close();
    job = Pattern.launch(MEBIBYTES).on(machine).start();
    ProcessImage image = suspended().dump(image(), HAND_OVER);
    assertNotHandedOver(image, "was started by this JVM");
    checkpoints.open(image()).restore().resume();
    assertRight();
  }
}
