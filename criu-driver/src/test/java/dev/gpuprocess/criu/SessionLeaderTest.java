package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.contract.RequiresCriu;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.fixtures.AttributeProcess;
import dev.gpuprocess.fixtures.SimulatedDriver;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A child whose session has no leader in the tree keeps its parent, or is refused. */
@RequiresCriu
@RequiresRoot("makes a pid namespace")
class SessionLeaderTest {

  @TempDir Path directory;

  @Test
  void childInSessionWithoutLeader_isRefused_unlessTheRootAdoptsOrphans() throws IOException {
    try (SimulatedDriver machine = SimulatedDriver.builder().create()) {
      GpuCheckpoints checkpoints =
          GpuCheckpoints.builder()
              .cuda(machine.directory())
              .stateDirectory(machine.stateDirectory())
              .build();
      try (AttributeProcess process = start(machine, "tree-leaderless")) {
        CriuException refused =
            assertThrows(CriuException.class, () -> dump(checkpoints, process, "refused"));
        assertEquals(CriuException.Reason.UNSUPPORTED_RESOURCE, refused.reason());
        assertTrue(refused.getMessage().contains("has no leader in the tree"), refused::toString);
        assertTrue(process.report(process.pid()).isPresent());
      }
      try (AttributeProcess process = start(machine, "ns-pid", "tree-leaderless")) {
        Optional<List<String>> before = process.report(process.pid());
        RunningProcess restored = dump(checkpoints, process, "image");
        try {
          assertEquals(before, process.report(restored.pid()));
        } finally {
          ProcessHandle.of(restored.pid()).ifPresent(ProcessHandle::destroyForcibly);
        }
      }
    }
  }

  private AttributeProcess start(SimulatedDriver machine, String... attributes) throws IOException {
    Path files = Files.createTempDirectory(directory, "files");
    AttributeProcess process = AttributeProcess.start(machine, files, List.of(attributes));
    assumeTrue(process.impossible().isEmpty(), () -> process.impossible().orElse(""));
    return process;
  }

  private RunningProcess dump(GpuCheckpoints checkpoints, AttributeProcess process, String image) {
    return checkpoints.process(process.pid()).dump(directory.resolve(image)).resume();
  }
}
