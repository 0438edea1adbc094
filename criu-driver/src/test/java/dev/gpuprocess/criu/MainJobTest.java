package dev.gpuprocess.criu;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.PoisonedProcess;
import dev.gpuprocess.PoisonedProcessException;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.contract.SaveAreaMemory;
import dev.gpuprocess.contract.TmpFs;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.CriuFailure;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.PidTakenException;
import dev.gpuprocess.error.UnsupportedResource;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.HostMemory;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.options.ResumeOptions;
import dev.gpuprocess.report.Diagnosis;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.Step;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpRequest;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The main job: off the GPU, onto disk, and back, with real CRIU and the simulated driver. */
class MainJobTest {

  @TempDir Path directory;
  private SimulatedDriver machine;
  private GpuCheckpoints checkpoints;

  @BeforeEach
  void buildMachine() {
    RealCriu.assume();
    machine = SimulatedDriver.builder().memory(2L << 30).contextMemory(256L << 20).create();
    checkpoints =
        GpuCheckpoints.builder()
            .cuda(machine.directory())
            .hostMemory(HostMemory.in(SaveAreaMemory.directory()))
            .stateDirectory(directory.resolve("state"))
            .build();
  }

  @AfterEach
  void removeMachine() {
    if (machine != null) {
      machine.close();
    }
  }

  private Path image() {
    return directory.resolve("image");
  }

  private CheckpointedProcess suspended(Counter counter) {
    return checkpoints.process(counter.pid()).lock().checkpoint();
  }

  private void assertNothingLeftBeside(String... expected) throws IOException {
    try (Stream<Path> entries = Files.list(directory)) {
      assertEquals(
          Stream.of(expected).sorted().toList(),
          entries.map(path -> path.getFileName().toString()).sorted().toList());
    }
  }

  @Test
  void countsOnAfterDumpAndRestore() throws IOException {
    try (Counter counter = Counter.start(machine)) {
      assertEquals(101, counter.increment());
      ProcessImage image = suspended(counter).dump(image());
      assertFalse(counter.isAlive());
      assertEquals(counter.pid(), image.manifest().pid());
      assertEquals(
          List.of("lock", "prepare", "checkpoint", "write", "seal", "dump"),
          image.steps().stream().map(Step::name).toList());

      RunningProcess again = checkpoints.open(image()).restore().resume();
      assertEquals(counter.pid(), again.pid());
      assertEquals(102, counter.increment());
      assertNothingLeftBeside("image", "state");
      try (DirectoryStream<Path> entries =
          Files.newDirectoryStream(directory.resolve("state"), "*.process")) {
        assertFalse(entries.iterator().hasNext(), "a running process leaves no entry");
      }
    }
  }

  /** Two processes with one key; a user that may move directories swaps their images. */
  @Test
  @OutsideUse("D4")
  void theImageOfAnotherJobIsNotRestoredInPlaceOfTheExpectedOne() throws IOException {
    Path secret = directory.resolve("key");
    Files.write(secret, new byte[32]);
    Files.setPosixFilePermissions(secret, PosixFilePermissions.fromString("rw-------"));
    GpuCheckpoints signing = checkpoints.toBuilder().imageKey(secret).build();
    Path other = directory.resolve("other");
    try (Counter counter = Counter.start(machine);
        Counter stranger = Counter.start(machine)) {
      ProcessIdentity wanted = ProcessIdentity.of(counter.pid()).orElseThrow();
      DumpOptions.Builder labels = DumpOptions.builder();
      signing.process(counter.pid()).suspend().dump(image(), labels.label("job a").build());
      signing.process(stranger.pid()).suspend().dump(other, labels.label("job b").build());
      Files.move(image(), directory.resolve("aside"));
      Files.move(other, image());
      RestoreOptions byLabel = RestoreOptions.builder().expectLabel("job a").build();
      RestoreOptions byProcess = RestoreOptions.builder().expectProcess(wanted).build();
      ProcessImage swapped = signing.open(image());
      ImageException e =
          assertReason(
              ImageException.class, ImageException.Reason.MISMATCH, () -> swapped.restore(byLabel));
      assertTrue(e.getMessage().contains("is labelled 'job b', and 'job a'"), e.getMessage());
      e =
          assertReason(
              ImageException.class,
              ImageException.Reason.MISMATCH,
              () -> swapped.restore(byProcess));
      assertTrue(e.getMessage().contains("process " + wanted.pid() + " started"), e.getMessage());
      assertFalse(stranger.isAlive(), "nothing was restored");

      RestoreOptions both = byLabel.toBuilder().expectProcess(wanted).build();
      signing.open(directory.resolve("aside")).restore(both).resume();
      assertEquals(101, counter.increment());
    }
  }

  @Test
  void everyByteOfGpuMemoryComesBack() {
    try (Pattern pattern = Pattern.start(machine, 200)) {
      ProcessImage image = checkpoints.process(pattern.pid()).suspend().dump(image());
      assertTrue(image.manifest().bytes() >= 200L << 20);
      image.restore().resume();
      assertEquals("ok %d bytes".formatted(200L << 20), pattern.verify());
    }
  }

  @Test
  void snapshotLeavesTheProcessRunningAndItsImageRestoresTheMoment() {
    try (Counter counter = Counter.start(machine)) {
      assertEquals(101, counter.increment());
      ProcessImage image = checkpoints.process(counter.pid()).snapshot(image());
      assertEquals(102, counter.increment());
      assertThrows(PidTakenException.class, image::restore);
      counter.close();
      image.restore().resume();
      assertEquals(102, counter.increment());
    }
  }

  @Test
  void poisonedProcessComesBackFromItsInsurance() {
    try (Counter counter = Counter.start(machine)) {
      assertEquals(101, counter.increment());
      CheckpointedProcess suspended = suspended(counter);
      machine.faults(Fault.in("cuCheckpointProcessRestore").call(1).answers(2));
      PoisonedProcessException e =
          assertThrows(
              PoisonedProcessException.class,
              () -> suspended.resume(ResumeOptions.builder().fallbackImage(image()).build()));
      e.process().replaceWith(checkpoints.open(image())).resume();
      assertEquals(102, counter.increment());
    }
  }

  /** An operator restores it after the death of the controller. */
  @Test
  void poisonedProcessThatAnotherControllerFindsComesBackFromItsFallbackImage() {
    try (Counter counter = Counter.start(machine)) {
      assertEquals(101, counter.increment());
      CheckpointedProcess suspended = suspended(counter);
      machine.faults(Fault.in("cuCheckpointProcessRestore").call(1).answers(2));
      ResumeOptions options = ResumeOptions.builder().fallbackImage(image()).build();
      assertThrows(PoisonedProcessException.class, () -> suspended.resume(options));
      GpuCheckpoints other = checkpoints.toBuilder().build();
      PoisonedProcess found = (PoisonedProcess) other.inspect(counter.pid());
      Path fallback = found.fallbackImage().orElseThrow();
      CheckpointedProcess restored = found.replaceWith(other.open(fallback));
      assertInstanceOf(CheckpointedProcess.class, other.inspect(counter.pid()));

      machine.faults(Fault.in("cuCheckpointProcessRestore").call(1).answers(2));
      assertThrows(PoisonedProcessException.class, restored::resume);
      PoisonedProcess again = (PoisonedProcess) other.inspect(counter.pid());
      assertEquals(Optional.of(fallback), again.fallbackImage(), "what it was restored from");
      again.replaceWith(other.open(fallback)).resume();
      assertEquals(102, counter.increment());
    }
  }

  @Test
  void dumpThatFailsLeavesTheProcessCheckpointedAndNoImage() throws IOException {
    try (Counter counter = Counter.start(machine)) {
      CheckpointedProcess suspended = suspended(counter);
      Path inAFile = Files.createFile(directory.resolve("file")).resolve("image");
      assertReason(
          ImageException.class, ImageException.Reason.DIRECTORY, () -> suspended.dump(inAFile));
      Files.createDirectory(image());
      Files.createFile(image().resolve("precious"));
      assertReason(
          ImageException.class, ImageException.Reason.DIRECTORY, () -> suspended.dump(image()));
      assertTrue(Files.exists(image().resolve("precious")));
      suspended.resume();
      assertEquals(101, counter.increment());
      assertNothingLeftBeside("file", "image", "state");
    }
  }

  @Test
  void fullDiskLeavesTheProcessCheckpointedAndNoImage() throws Exception {
    Path small = Files.createDirectory(directory.resolve("small"));
    try (TmpFs disk = TmpFs.mount(small, "size=24m");
        Pattern pattern = Pattern.start(machine, 4)) {
      assertNotNull(disk);
      CheckpointedProcess suspended = checkpoints.process(pattern.pid()).suspend();
      // The look at free room is passed; CRIU itself hits the end.
      Files.write(small.resolve("filler"), new byte[20 << 20]);
      assertReason(
          ImageException.class,
          ImageException.Reason.DISK_FULL,
          () -> suspended.dump(small.resolve("image")));
      Files.delete(small.resolve("filler"));
      try (Stream<Path> left = Files.list(small)) {
        assertEquals(0, left.count());
      }
      suspended.resume();
      assertEquals("ok %d bytes".formatted(4L << 20), pattern.verify());
    }
  }

  @Test
  void truncatedPagesAreRefusedBeforeCriuIsStarted() throws IOException {
    try (Counter counter = Counter.start(machine)) {
      ProcessImage image = suspended(counter).dump(image());
      Path pages = image.directory().resolve("criu").resolve("pages-1.img");
      try (FileChannel channel = FileChannel.open(pages, StandardOpenOption.WRITE)) {
        channel.truncate(channel.size() / 2);
      }
      ImageException e =
          assertReason(ImageException.class, ImageException.Reason.CORRUPT, image::restore);
      assertTrue(e.getMessage().contains("pages-1.img"), e.getMessage());
      assertFalse(counter.isAlive());
    }
  }

  @Test
  void alteredFileIsRefused() throws IOException {
    try (Counter counter = Counter.start(machine)) {
      ProcessImage image = suspended(counter).dump(image());
      Path core = image.directory().resolve("criu").resolve("inventory.img");
      byte[] content = Files.readAllBytes(core);
      content[content.length / 2] ^= 1;
      Files.write(core, content);
      assertReason(ImageException.class, ImageException.Reason.CORRUPT, image::restore);
    }
  }

  @Test
  void childThatInheritedTheGpuIsNamedAndRefused() throws IOException {
    try (Counter counter = Counter.start(machine)) {
      String child = counter.ask("fork");
      CheckpointedProcess suspended = suspended(counter);
      FixAndRetryException e =
          assertReason(
              FixAndRetryException.class,
              FixAndRetryException.Reason.CUDA_CHILD,
              () -> suspended.dump(image()));
      assertTrue(e.getMessage().contains("child " + child), e.getMessage());
      suspended.resume();
      assertEquals(101, counter.increment());
    }
  }

  @Test
  void whatCriuCannotDumpIsNamedBeforeCriuIsStarted() throws IOException {
    try (Counter counter = Counter.start(machine)) {
      String descriptor = counter.ask("open /dev/fuse");
      Diagnosis before = checkpoints.doctor(counter.pid());
      assertEquals(1, before.problems().size(), before::toString);
      CheckpointedProcess suspended = suspended(counter);
      CriuException e =
          assertReason(
              CriuException.class,
              CriuException.Reason.UNSUPPORTED_RESOURCE,
              () -> suspended.dump(image()));
      assertEquals(
          List.of(
              new UnsupportedResource(
                  UnsupportedResource.Kind.OTHER,
                  (int) counter.pid(),
                  "descriptor " + descriptor,
                  "/dev/fuse",
                  null)),
          e.resources());
      assertTrue(e.getMessage().contains("descriptor %s: /dev/fuse".formatted(descriptor)));
      assertEquals(CriuFailure.NOT_STARTED, e.criu().orElseThrow());
      assertEquals(ProcessState.CHECKPOINTED, e.failure().after());
      assertNothingLeftBeside("state");
      suspended.resume();
      assertEquals(101, counter.increment());
    }
  }

  @Test
  void optionThatTheRefusalNamesLetsTheDumpThrough() {
    try (Counter counter = Counter.start(machine)) {
      counter.ask("lock " + directory.resolve("locked"));
      CheckpointedProcess suspended = suspended(counter);
      CriuException e =
          assertReason(
              CriuException.class,
              CriuException.Reason.UNSUPPORTED_RESOURCE,
              () -> suspended.dump(image()));
      assertEquals("CriuOptions.set(\"file-locks\")", e.resources().get(0).option());
      suspended
          .dump(image(), DumpOptions.builder().criu(c -> c.fileLocks(true)).build())
          .restore()
          .resume();
      assertEquals(101, counter.increment());
    }
  }

  @Test
  void doctorFindsNothingAgainstACounter() {
    try (Counter counter = Counter.start(machine)) {
      Path image = image();
      Diagnosis running = checkpoints.doctor(counter.pid(), image, DumpOptions.ofDefaults());
      assertEquals(List.of(), running.problems(), running::toString);
      CheckpointedProcess suspended = suspended(counter);
      Diagnosis off = checkpoints.doctor(counter.pid(), image, DumpOptions.ofDefaults());
      assertEquals(List.of(), off.problems(), off::toString);
      suspended.dump(image).restore().resume();
      assertEquals(101, counter.increment());
    }
  }

  @Test
  void doctorFindsCriuFit() {
    Diagnosis diagnosis = checkpoints.doctor(directory);
    assertEquals(List.of(), diagnosis.problems(), diagnosis::toString);
    assertTrue(diagnosis.toString().contains("criu check: this kernel has what it needs"));
  }

  @Test
  void dumpOfAProcessThatWasNotCheckpointedIsRefusedByCriu() {
    try (Counter counter = Counter.start(machine)) {
      CriuException e =
          assertThrows(
              CriuException.class,
              () ->
                  new RpcCriuDriver()
                      .dump(
                          new DumpRequest(
                              ProcessIdentity.of(counter.pid()).orElseThrow(),
                              Files.createDirectory(directory.resolve("images")),
                              Files.createDirectory(directory.resolve("work")),
                              DumpOptions.ofDefaults()),
                          DumpListener.NONE));
      assertTrue(
          e.criu().orElseThrow().errors().stream()
              .anyMatch(line -> line.contains("non-regular mapping")),
          e.getMessage());
      assertEquals(101, counter.increment());
    }
  }
}
