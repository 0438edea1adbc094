package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.LaunchedProcess;
import dev.gpuprocess.contract.SaveAreaMemory;
import dev.gpuprocess.contract.TmpFs;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.options.HostMemory;
import dev.gpuprocess.options.LaunchOptions;
import dev.gpuprocess.options.Timeouts;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.awaitility.Awaitility;

/** A program that counts on the GPU, with loaders that are forked, launched by this library. */
final class Trainer implements AutoCloseable {

  static final Duration PATIENCE = Duration.ofSeconds(50);

  /**
   * The simulated NVML does not list a process of another pid namespace: there is room to spare.
   */
  private final SimulatedDriver machine;

  private final Path program;
  final GpuCheckpoints checkpoints;

  Trainer(Path directory) {
    this(directory, 13000);
  }

  /**
   * Starts it with a driver of another version, as {@link SimulatedDriver.Builder#driverVersion}.
   */
  Trainer(Path directory, int driverVersion) {
    machine = SimulatedDriver.builder().memory(32L << 30).driverVersion(driverVersion).create();
    program = TestTools.compile(Trainer.class, "trainer", directory, "-ldl");
    checkpoints =
        GpuCheckpoints.builder()
            .cuda(machine.directory())
            .hostMemory(HostMemory.in(SaveAreaMemory.directory()))
            .stateDirectory(directory.resolve("state"))
            .timeouts(Timeouts.builder().call(Duration.ofSeconds(30)).build())
            .build();
  }

  LaunchOptions.Builder options(Path file, int loaders, String... more) {
    List<String> arguments = new ArrayList<>(List.of(file.toString(), Integer.toString(loaders)));
    arguments.addAll(List.of(more));
    return LaunchOptions.builder(program.toString(), arguments.toArray(String[]::new))
        .environment(machine.environment());
  }

  /** In namespaces of its own. */
  LaunchOptions.Builder isolated(Path file, int loaders) {
    return isolatedScript("exec \"$0\" \"$1\" \"$2\"", file, loaders);
  }

  /** As {@link #script}, in namespaces of its own. */
  LaunchOptions.Builder isolatedScript(String script, Object... arguments) {
    return script(TmpFs.LEAVE_MOUNTS_OF_TESTS + script, arguments).isolated(true);
  }

  /** Returns the script for a shell; {@code $0} is the program. */
  LaunchOptions.Builder script(String script, Object... arguments) {
    List<String> all = new ArrayList<>(List.of("-c", script, program.toString()));
    for (Object argument : arguments) {
      all.add(argument.toString());
    }
    return LaunchOptions.builder("sh", all.toArray(String[]::new))
        .environment(machine.environment());
  }

  /** The program. */
  Path program() {
    return program;
  }

  /** The directory of the simulated GPUs. */
  Path machine() {
    return machine.directory();
  }

  /** Starts one, and waits until it and its loaders count. */
  LaunchedProcess launch(Path file, int loaders) {
    LaunchedProcess job = checkpoints.launch(options(file, loaders).build());
    awaitMore(file, 0);
    for (int loader = 1; loader <= loaders; loader++) {
      awaitMore(loader(file, loader), 0);
    }
    return job;
  }

  static Path loader(Path file, int number) {
    return file.resolveSibling(file.getFileName() + "." + number);
  }

  /** Returns its number. */
  static int count(Path file) {
    try {
      return Integer.parseInt(Files.readString(file).strip());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Waits until it has counted further. A process that started again has a lower number. */
  static void awaitMore(Path file, int than) {
    Awaitility.await()
        .atMost(PATIENCE)
        .pollInterval(Duration.ofMillis(2))
        .until(() -> Files.exists(file) && isMore(count(file), than));
  }

  private static boolean isMore(int count, int than) {
    assertTrue(count >= than, () -> "it counts from " + count + ", and had come to " + than);
    return count > than;
  }

  @Override
  public void close() {
    machine.close();
  }
}
