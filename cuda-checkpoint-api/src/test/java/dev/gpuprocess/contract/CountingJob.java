package dev.gpuprocess.contract;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * For each test, a machine with a simulated driver, a process that counts on its GPU, and the
 * checkpoints of a state directory of their own. Register it as a field with {@link
 * org.junit.jupiter.api.extension.RegisterExtension}.
 */
@NullUnmarked
public final class CountingJob implements BeforeEachCallback, AfterEachCallback {

  private Path directory;
  private SimulatedDriver machine;
  private GpuCheckpoints checkpoints;
  private Counter counter;

  @Override
  public void beforeEach(ExtensionContext context) throws IOException {
    directory = Files.createTempDirectory("gpuprocess-test");
    machine = SimulatedDriver.create();
    checkpoints =
        GpuCheckpoints.builder().cuda(machine.directory()).stateDirectory(state()).build();
    counter = Counter.start(machine);
  }

  @Override
  public void afterEach(ExtensionContext context) throws IOException {
    if (machine != null) {
      machine.clearFaults();
    }
    if (counter != null) {
      counter.close();
    }
    if (machine != null) {
      machine.close();
    }
    List<Path> all;
    try (Stream<Path> files = Files.walk(directory)) {
      all = files.sorted(Comparator.reverseOrder()).toList();
    }
    for (Path file : all) {
      Files.delete(file);
    }
  }

  /** An empty directory, removed after the test. */
  public Path directory() {
    return directory;
  }

  /** The state directory of the checkpoints; made when it is first needed. */
  public Path state() {
    return directory.resolve("state");
  }

  public SimulatedDriver machine() {
    return machine;
  }

  public GpuCheckpoints checkpoints() {
    return checkpoints;
  }

  /** The process. */
  public Counter counter() {
    return counter;
  }

  public long pid() {
    return counter.pid();
  }
}
