package dev.gpuprocess.survival;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.contract.SaveAreaMemory;
import dev.gpuprocess.criu.FileTree;
import dev.gpuprocess.criu.RpcCriuDriver;
import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.cuda.LibCuda;
import dev.gpuprocess.internal.cuda.LibNvml;
import dev.gpuprocess.options.HostMemory;
import dev.gpuprocess.options.Timeouts;
import dev.gpuprocess.report.StepListener;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.function.ObjIntConsumer;
import java.util.stream.Stream;

/**
 * A simulated machine with a journal, a directory for images, and one in memory for the GPU memory
 * of suspended processes; one case at a time uses it. Its processes are large enough for that.
 */
final class SimulatedMachine implements AutoCloseable {

  private static final Duration HASTE = Duration.ofMillis(200);
  private static final Duration CRIU_HASTE = Duration.ofSeconds(4);
  private static final Duration CRIU_PATIENCE = Duration.ofMinutes(1);

  /** The memory of a context; the driver hook is not used for less GPU memory. */
  private static final long CONTEXT_BYTES = 256L << 20;

  final SimulatedDriver driver;
  private final Path directory;
  private final LibCuda cuda;
  private final LibNvml nvml;

  SimulatedMachine(Path directory) {
    this(directory, 1);
  }

  SimulatedMachine(Path directory, int gpus) {
    this.directory = directory;
    this.driver = SimulatedDriver.builder().gpus(gpus).contextMemory(CONTEXT_BYTES).create();
    this.cuda = LibCuda.in(driver.directory());
    this.nvml = LibNvml.in(driver.directory());
    for (Path made : List.of(directory, state(), images(), temporary())) {
      make(made);
    }
    try {
      Path memory = Files.createTempDirectory(SaveAreaMemory.directory(), "gpuprocess-test");
      Files.createSymbolicLink(memoryBeside(state()), memory);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  static Path make(Path directory) {
    try {
      return Files.createDirectories(directory);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  Path state() {
    return directory.resolve("state");
  }

  /** The directory of the GPU memory of suspended processes: files without a name. */
  Path memory() {
    return memoryBeside(state());
  }

  private static Path memoryBeside(Path state) {
    return state.resolveSibling("memory");
  }

  /** The CRIU processes of this machine. */
  List<Long> criu() {
    return Signals.criuAt(directory);
  }

  /** Anything else of this machine. */
  Path place(String name) {
    return directory.resolve(name);
  }

  Path images() {
    return directory.resolve("images");
  }

  /** Where a controller of its own puts temporary files. */
  Path temporary() {
    return directory.resolve("tmp");
  }

  Path image() {
    return images().resolve("image");
  }

  /** The entry that runs the verbs, and reports every moment. */
  GpuCheckpoints checkpoints(FaultPoints moments, boolean hasty) {
    GpuCheckpoints patient =
        watched(cuda, nvml, state(), moments, hasty ? CRIU_HASTE : CRIU_PATIENCE);
    return hasty
        ? patient.toBuilder()
            .timeouts(Timeouts.builder().lock(HASTE).call(HASTE).transfer(HASTE).build())
            .build()
        : patient;
  }

  /** The entry that checks the process afterwards. */
  GpuCheckpoints checkpoints() {
    return checkpoints(new FaultPoints(), false);
  }

  /** Returns the entry for a JVM that uses the machine of another JVM. */
  static GpuCheckpoints checkpoints(Path machine, Path state, FaultPoints moments) {
    return watched(LibCuda.in(machine), LibNvml.in(machine), state, moments, CRIU_PATIENCE);
  }

  /**
   * One that gives up soon, for a JVM that uses the machine of another one.
   *
   * @param moments what CRIU comes to, and with which process
   */
  static GpuCheckpoints hastyCheckpoints(
      CudaDriver driver, Path machine, Path state, ObjIntConsumer<String> moments) {
    return GpuCheckpoints.builder()
        .cuda(driver, LibNvml.in(machine))
        .criu(WatchedCriu.ofProcess(new RpcCriuDriver(), moments, CRIU_HASTE))
        .timeouts(Timeouts.builder().lock(HASTE).call(HASTE).transfer(HASTE).build())
        .hostMemory(HostMemory.in(memoryBeside(state)))
        .stateDirectory(state)
        .build();
  }

  private static GpuCheckpoints watched(
      LibCuda cuda, LibNvml nvml, Path state, FaultPoints moments, Duration criuDeadline) {
    return GpuCheckpoints.builder()
        .cuda(new WatchedDriver(cuda, moments), nvml)
        .criu(WatchedCriu.of(new RpcCriuDriver(), moments::reached, criuDeadline))
        .listener((StepListener) moments)
        .hostMemory(HostMemory.in(memoryBeside(state)))
        .stateDirectory(state)
        .build();
  }

  /** Replaces the directory of the journal by a file. */
  void breakJournal() {
    try {
      Files.move(state(), directory.resolve("state.away"));
      Files.createFile(state());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Ends all faults of the machine. */
  void calm() {
    driver.clearFaults();
    Path away = directory.resolve("state.away");
    if (Files.exists(away)) {
      try {
        Files.delete(state());
        Files.move(away, state());
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }
  }

  /** The names in a directory of ours. */
  static List<String> names(Path directory) {
    try (Stream<Path> files = Files.list(directory)) {
      return files.map(file -> file.getFileName().toString()).sorted().toList();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** The names of images that are not partial. */
  List<String> imageNames() {
    return names(images()).stream().filter(name -> !name.endsWith(".partial")).toList();
  }

  /** The directories of possible images: a path over a link may end in the directory above. */
  List<Path> possibleImages() {
    return Stream.of(images(), directory)
        .flatMap(parent -> names(parent).stream().map(parent::resolve))
        .toList();
  }

  /** The entries of the journal, complete or partial. */
  List<String> journal() {
    return names(state()).stream()
        .filter(name -> name.endsWith(".process") || name.endsWith(".half"))
        .toList();
  }

  /** Empties the directory of images, and removes files beside it. */
  void removeImages() {
    names(images()).forEach(name -> FileTree.remove(images().resolve(name)));
    possibleImages().stream()
        .filter(
            path ->
                path.getFileName().toString().startsWith(CrashCycle.DUMP)
                    || path.toString().endsWith(".partial"))
        .forEach(FileTree::remove);
  }

  @Override
  public void close() {
    try {
      FileTree.remove(memory().toRealPath());
      Files.delete(memory());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    driver.close();
  }
}
