package dev.gpuprocess.criu;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.LaunchedProcess;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.TmpFs;
import dev.gpuprocess.cuda.Gpu;
import dev.gpuprocess.cuda.GpuInventory;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.MachineDifference;
import dev.gpuprocess.error.MachineDifference.Aspect;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.image.ImageMachine;
import dev.gpuprocess.image.MappedFile;
import dev.gpuprocess.internal.cuda.LibCuda;
import dev.gpuprocess.internal.cuda.LibNvml;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.options.LaunchOptions;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.report.StepListener;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CopyOnWriteArrayList;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Images whose libraries changed or that come from another machine, with real CRIU. */
class MachineMismatchTest {

  @TempDir Path directory;
  private SimulatedDriver machine;
  private GpuCheckpoints checkpoints;

  @BeforeEach
  void buildMachine() {
    RealCriu.assume();
    machine = SimulatedDriver.builder().memory(1L << 30).create();
    checkpoints =
        GpuCheckpoints.builder()
            .cuda(machine.directory())
            .stateDirectory(directory.resolve("state"))
            .build();
  }

  @AfterEach
  void removeMachine() {
    if (machine != null) {
      machine.close();
    }
  }

  /** A copy of a library that every JVM has, with a build id or without, as its maker chose. */
  private Path library(String name) throws IOException {
    String found =
        ProcFs.memory(ProcessHandle.current().pid()).stream()
            .map(Mapping::name)
            .filter(each -> each.contains("/libm.so") || each.contains("/libm-"))
            .findFirst()
            .orElseThrow();
    return Files.copy(Path.of(found), directory.resolve(name));
  }

  /** Returns the description of another machine. */
  private record OtherGpus(GpuInventory here, String driver) implements GpuInventory {

    @Override
    public Optional<List<Gpu>> gpus() {
      return here.gpus().map(all -> all.stream().map(OtherGpus::another).toList());
    }

    private static Gpu another(Gpu gpu) {
      return new Gpu(gpu.uuid(), "Another GPU", gpu.totalBytes(), gpu.freeBytes(), gpu.users());
    }

    @Override
    public Optional<String> driverVersion() {
      return Optional.of(driver);
    }
  }

  private void assertJournalIsEmpty() throws IOException {
    try (DirectoryStream<Path> entries =
        Files.newDirectoryStream(directory.resolve("state"), "*.process")) {
      assertFalse(entries.iterator().hasNext());
    }
  }

  @Test
  void allDifferencesAreNamedBeforeCriuIsStartedAndPutRightItRestores() throws IOException {
    Path changed = library("libchanged.so");
    Path missing = library("libmissing.so");
    try (Counter counter =
        Counter.launch().on(machine).environment("LD_PRELOAD", changed + ":" + missing).start()) {
      assertEquals(101, counter.increment());
      Path directoryOfImage = directory.resolve("image");
      ProcessImage image = checkpoints.process(counter.pid()).suspend().dump(directoryOfImage);
      ImageMachine needs = requireNonNull(image.manifest().machine());
      List<String> files = needs.files().stream().map(MappedFile::path).toList();
      assertTrue(
          files.containsAll(List.of(changed.toString(), missing.toString())), files::toString);
      assertEquals(List.of("Simulated GPU"), List.copyOf(needs.gpus().values()));
      assertEquals(List.of(), image.differences());

      byte[] original = Files.readAllBytes(changed);
      Files.write(changed, new byte[1], StandardOpenOption.APPEND);
      Path aside = Files.move(missing, directory.resolve("aside"));
      List<String> steps = new CopyOnWriteArrayList<>();
      GpuCheckpoints elsewhere =
          checkpoints.toBuilder()
              .cuda(
                  LibCuda.in(machine.directory()),
                  new OtherGpus(LibNvml.in(machine.directory()), "570.1"))
              .listener(
                  new StepListener() {
                    @Override
                    public void started(String name, int pid) {
                      steps.add(name);
                    }
                  })
              .build();
      MachineUnfitException e =
          assertReason(
              MachineUnfitException.class,
              MachineUnfitException.Reason.MACHINE_MISMATCH,
              () -> elsewhere.open(directoryOfImage).restore());
      assertEquals(
          List.of(Aspect.DRIVER, Aspect.GPU, Aspect.FILE, Aspect.FILE),
          e.differences().stream().map(MachineDifference::aspect).toList());
      for (String named :
          List.of("570.1", "Another GPU", changed + ": ", missing + ": ", "missing here")) {
        assertTrue(e.getMessage().contains(named), e.getMessage());
      }
      assertEquals(List.of("compare"), steps, "CRIU was not started, and the image not read");
      assertFalse(counter.isAlive());
      assertJournalIsEmpty();

      // CRIU knows of fewer things, and tells of one.
      RestoreOptions blind = RestoreOptions.builder().skipMachineCheck(true).build();
      CriuException ofCriu =
          assertThrows(CriuException.class, () -> elsewhere.open(directoryOfImage).restore(blind));
      assertFalse(counter.isAlive(), ofCriu.getMessage());

      Files.write(changed, original);
      Files.move(aside, missing);
      image.restore().resume();
      assertEquals(102, counter.increment());
      assertJournalIsEmpty();
    }
  }

  @Test
  @RequiresRoot("makes namespaces")
  void isolatedJobNeedsTheFilesOfTheHost() throws IOException {
    Path program = directory.resolve("sleeper");
    Files.copy(Path.of("/bin/sleep"), program, StandardCopyOption.COPY_ATTRIBUTES);
    String script = TmpFs.LEAVE_MOUNTS_OF_TESTS + "exec \"$0\" 1000";
    LaunchOptions options =
        LaunchOptions.builder("sh", "-c", script, program.toString()).isolated(true).build();
    LaunchedProcess job = checkpoints.launch(options);
    try {
      Awaitility.await()
          .atMost(Duration.ofSeconds(60))
          .until(() -> ProcFs.commandLine(job.identity().pid()).contains("1000"));
      ProcessImage image = job.process().suspend().dump(directory.resolve("image"));
      List<String> files =
          requireNonNull(image.manifest().machine()).files().stream()
              .map(MappedFile::path)
              .toList();
      assertTrue(files.contains(program.toString()), files::toString);
      assertEquals(List.of(), image.differences());
      Path aside = Files.move(program, directory.resolve("aside"));
      assertEquals(
          List.of(program.toString()),
          assertReason(
                  MachineUnfitException.class,
                  MachineUnfitException.Reason.MACHINE_MISMATCH,
                  image::restore)
              .differences()
              .stream()
              .map(MachineDifference::subject)
              .toList());
      Files.move(aside, program);
      image.restore().resume();
      assertTrue(job.identity().isAlive());
    } finally {
      job.end(Duration.ZERO);
    }
  }
}
