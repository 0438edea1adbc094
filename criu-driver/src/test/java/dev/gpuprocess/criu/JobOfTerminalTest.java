package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.contract.RequiresCriu;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.fixtures.AttributeProcess;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Jobs that were started in a terminal come back without one, more than once. */
@RequiresCriu
@RequiresRoot("CRIU as root")
class JobOfTerminalTest {

  @TempDir Path directory;

  @ParameterizedTest
  @ValueSource(strings = {"terminal-background", "terminal-leader"})
  void jobOfTerminal_dumpedAndRestoredTwice_isAsBefore(String attribute) throws IOException {
    try (SimulatedDriver machine = SimulatedDriver.builder().create()) {
      GpuCheckpoints checkpoints =
          GpuCheckpoints.builder()
              .cuda(machine.directory())
              .stateDirectory(machine.stateDirectory())
              .build();
      Path files = Files.createDirectory(directory.resolve("files"));
      try (AttributeProcess process = AttributeProcess.start(machine, files, List.of(attribute))) {
        assumeTrue(process.impossible().isEmpty(), () -> process.impossible().orElse(""));
        Optional<List<String>> before = process.report(process.pid());
        int pid = process.pid();
        for (String name : List.of("first", "second")) {
          Path image = directory.resolve(name);
          ProcessImage dumped = checkpoints.process(pid).dump(image);
          RunningProcess restored = dumped.resume();
          pid = restored.pid();
          assertEquals(before, process.report(pid));
          Path log = directory.resolve(name + ".terminal.log");
          assertTrue(Files.exists(log), "the file for the output of the new terminal");
          assertTrue(
              restored.steps().stream().anyMatch(step -> step.note().endsWith(log.toString())),
              () -> restored.steps().toString());
          assertTrue(ProcFs.stat(pid).map(ProcStat::session).orElse(0) > 1);
        }
        ProcessHandle.of(pid).ifPresent(ProcessHandle::destroyForcibly);
      }
    }
  }
}
