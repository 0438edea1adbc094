package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.Step;
import dev.gpuprocess.report.StepListener;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A restored process whose journal entry cannot be written just then, as without descriptors. */
@NullUnmarked
@OutsideUse("A6")
class RestoreEntryTest {

  @TempDir Path directory;
  private SimulatedDriver machine;

  @BeforeEach
  void buildMachine() throws IOException {
    RealCriu.assume();
    Files.createDirectory(state());
    machine = SimulatedDriver.create();
  }

  @AfterEach
  void removeMachine() {
    if (machine != null) {
      machine.close();
    }
  }

  private Path state() {
    return directory.resolve("state");
  }

  private GpuCheckpoints checkpoints(StepListener listener) {
    return GpuCheckpoints.builder()
        .cuda(machine.directory())
        .stateDirectory(state())
        .listener(listener)
        .build();
  }

  /** A directory with the name of the entry, so that the entry cannot be written. */
  private Path inTheWay(int pid) {
    ProcessIdentity restored = ProcessIdentity.of(pid).orElseThrow();
    return state().resolve(ProcessKey.of(restored).text() + ".process");
  }

  private List<Path> entries() throws IOException {
    try (Stream<Path> files = Files.list(state())) {
      return files.filter(file -> file.toString().endsWith(".process")).toList();
    }
  }

  @Test
  void isFoundByTheEntryThatWasMadeBefore() throws IOException {
    StepListener blocking =
        new StepListener() {
          @Override
          public void finished(Step step) {
            if (step.name().equals("criu restore")) {
              try {
                Files.createDirectories(inTheWay(step.pid()).resolve("full"));
              } catch (IOException e) {
                throw new UncheckedIOException(e);
              }
            }
          }
        };
    try (Counter counter = Counter.start(machine)) {
      GpuCheckpoints checkpoints = checkpoints(blocking);
      ProcessImage image =
          checkpoints.process(counter.pid()).suspend().dump(directory.resolve("image"));
      CheckpointedProcess restored = image.restore();
      Path inTheWay = inTheWay(restored.pid());
      assertTrue(Files.isDirectory(inTheWay));
      FileTree.remove(inTheWay);

      assertTrue(
          checkpoints.recover().stream()
              .anyMatch(found -> found.process().pid() == restored.pid()));
      restored.resume();
      assertEquals(101, counter.increment());
      assertEquals(List.of(), checkpoints.recover());
      assertEquals(List.of(), entries());
    }
  }
}
