package dev.gpuprocess.criu;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static dev.gpuprocess.criu.Trainer.PATIENCE;
import static dev.gpuprocess.criu.Trainer.awaitMore;
import static dev.gpuprocess.criu.Trainer.count;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.LaunchedProcess;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.OpenFile;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.options.LaunchOptions;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.lang.ProcessBuilder.Redirect;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Dumps and restores of launched processes, with real CRIU and the simulated driver. */
@RequiresRoot("is the parent of what CRIU restores, and traces it")
class LaunchedJobDumpTest {

  @TempDir Path directory;
  private Trainer trainer;
  private LaunchedProcess job;

  @BeforeEach
  void buildTrainer() {
    RealCriu.assume();
    trainer = new Trainer(directory);
  }

  @AfterEach
  void endTrainer() {
    if (job != null) {
      job.end(Duration.ZERO);
    }
    if (trainer != null) {
      trainer.close();
    }
  }

  private Path file() {
    return directory.resolve("count");
  }

  private Path image() {
    return directory.resolve("image");
  }

  @Test
  void trainerWithForkedLoadersGoesOnAfterDumpAndRestoreAndItsExitCodeIsTold() {
    job = trainer.launch(file(), 2);
    ProcessIdentity before = job.identity();
    Set<Integer> loaders = Set.copyOf(ProcFs.descendants(before.pid()));
    assertEquals(2, loaders.size());
    ProcessImage image = job.process().suspend().dump(image());
    assertTrue(job.isDumped());
    assertEquals(Optional.empty(), job.awaitExit(Duration.ofMillis(1)), "a dump is not its end");
    assertEquals(Optional.empty(), job.end(Duration.ZERO), "nothing to be ended");
    final int dumped = count(file());
    final int loaded = count(Trainer.loader(file(), 2));

    RunningProcess again = image.restore().resume();
    assertFalse(job.isDumped());
    assertEquals(again.identity(), job.identity());
    assertNotEquals(before, job.identity());
    assertEquals(loaders, Set.copyOf(ProcFs.descendants(before.pid())));
    awaitMore(file(), dumped);
    awaitMore(Trainer.loader(file(), 2), loaded);
    assertTrue(isGuarded(job.identity()), "it still ends with this JVM");
    assertEquals(OptionalInt.of(3), job.end(PATIENCE).orElseThrow().code());
    assertEquals(OptionalInt.of(3), job.exitCode());
    assertTrue(ProcFs.stat(before.pid()).isEmpty(), "reaped");
  }

  private static boolean isGuarded(ProcessIdentity root) {
    List<String> wanted =
        List.of("gpuprocess-guard", "" + root.pid(), "" + root.startTicks(), "yes");
    return ProcFs.descendants(ProcessHandle.current().pid()).stream()
        .anyMatch(pid -> ProcFs.commandLine(pid).containsAll(wanted));
  }

  @Test
  void memoryOfALaunchedJobIsInFiles() {
    LaunchOptions.Builder options = trainer.options(file(), 0, "160");
    job = trainer.checkpoints.launch(options.build());
    awaitMore(file(), 0);
    ProcessImage image = job.process().suspend().dump(image());
    assertEquals(1, image.manifest().memoryFiles().size(), image.steps()::toString);
    int dumped = count(file());
    image.restore().resume();
    awaitMore(file(), dumped);
    assertEquals(OptionalInt.of(3), job.end(PATIENCE).orElseThrow().code());
  }

  @Test
  void forkedLoaderHasNothingOfTheGpuAndAllItsNumbersAndAddresses() {
    job = trainer.launch(file(), 1);
    int root = job.identity().pid();
    int loader = ProcFs.descendants(root).get(0);
    List<OpenFile> devices =
        ProcFs.openFiles(root).stream().filter(open -> isDevice(open.target())).toList();
    assertFalse(devices.isEmpty());
    for (OpenFile device : devices) {
      assertTrue(
          ProcFs.openFiles(loader).contains(new OpenFile(device.number(), "/dev/null")),
          device::toString);
    }
    List<Mapping> covered =
        ProcFs.memory(root).stream().filter(mapping -> isDevice(mapping.name())).toList();
    List<Mapping> there = ProcFs.memory(loader);
    for (Mapping mapping : covered) {
      assertTrue(
          there.stream()
              .anyMatch(
                  one ->
                      one.start() <= mapping.start()
                          && one.end() >= mapping.end()
                          && one.permissions().equals("---p")),
          mapping::toString);
    }
    assertTrue(there.stream().noneMatch(mapping -> isDevice(mapping.name())));
  }

  /** The file by which the simulated driver counts memory does not count: a real GPU lacks it. */
  private static boolean isDevice(String name) {
    return name.contains("/dev/nvidia") && !name.contains("/dev/nvidia-usage/");
  }

  @Test
  void refusalOfInheritedGpuNamesTheCure() {
    job = trainer.checkpoints.launch(trainer.options(file(), 1).dropInheritedGpu(false).build());
    awaitMore(file(), 0);
    awaitMore(Trainer.loader(file(), 1), 0);
    RunningProcess process = job.process();
    FixAndRetryException e =
        assertReason(
            FixAndRetryException.class,
            FixAndRetryException.Reason.CUDA_CHILD,
            () -> process.suspend().dump(image()));
    assertTrue(e.getMessage().contains("LaunchOptions.dropInheritedGpu(true)"), e.getMessage());
  }

  @Test
  void outputToTheCallerIsRefusedWithItsCure() {
    job = trainer.checkpoints.launch(trainer.options(file(), 0).output(Redirect.PIPE).build());
    awaitMore(file(), 0);
    RunningProcess process = job.process();
    CriuException e =
        assertReason(
            CriuException.class,
            CriuException.Reason.UNSUPPORTED_RESOURCE,
            () -> process.snapshot(image()));
    assertTrue(
        e.getMessage().contains("start the process with a file in its place"), e.getMessage());
    int there = count(file());
    awaitMore(file(), there);
  }

  /** The file was removed, or the image comes from another host. */
  @Test
  void libraryThatIsMappedIsThereAgainForTheRestore() throws IOException {
    LaunchedProcess other = trainer.launch(directory.resolve("other"), 0);
    Path usual = library(other);
    other.end(Duration.ZERO);
    Path library = directory.resolve("gpuprocess-native-there").resolve(usual.getFileName());
    Files.createDirectory(library.getParent());
    Files.copy(usual, library);
    byte[] content = Files.readAllBytes(library);
    LaunchOptions options =
        trainer
            .options(file(), 1)
            .environment("LD_PRELOAD", library.toString())
            .dropInheritedGpu(false)
            .build();
    job = trainer.checkpoints.launch(options);
    awaitMore(file(), 0);
    awaitMore(Trainer.loader(file(), 1), 0);
    ProcessImage image = job.process().suspend().dump(image());
    int dumped = count(file());
    Files.delete(library);
    Files.delete(library.getParent());
    image.restore().resume();
    assertArrayEquals(content, Files.readAllBytes(library));
    awaitMore(file(), dumped);
  }

  private static Path library(LaunchedProcess of) {
    return ProcFs.memory(of.identity().pid()).stream()
        .filter(mapping -> mapping.name().contains("gpuprocess-fork-handler-"))
        .map(mapping -> Path.of(mapping.name()))
        .findFirst()
        .orElseThrow();
  }
}
