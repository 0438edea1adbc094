package dev.gpuprocess.survival;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.criu.RealCriu;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The user has configuration files by which every CRIU leaves a dumped tree running. */
@OutsideUse("A15")
class DefaultConfigTest {

  @TempDir Path directory;

  private void assertDumpEndsTheTree(Map<String, String> environment) throws Exception {
    try (HostSubject subject = HostSubject.start(directory, 1)) {
      Process controller =
          ChildJvm.start(
              CriuDeathController.class,
              directory,
              environment,
              List.of("DUMP", Integer.toString(subject.pid()), directory.toString(), "-1"));
      assertTrue(controller.waitFor(180, TimeUnit.SECONDS));
      assertEquals(0, controller.exitValue());
      assertEquals(Optional.empty(), subject.identity());
    }
  }

  private Path config() throws Exception {
    Path file = Files.createDirectories(directory.resolve(".criu")).resolve("default.conf");
    return Files.writeString(file, "leave-running\n");
  }

  @Test
  void dump_defaultFileInTheHome_isNotObeyed() throws Exception {
    config();
    String criu = RealCriu.command().get(0);
    assertDumpEndsTheTree(Map.of("HOME", directory.toString(), "GPUPROCESS_CRIU", criu));
  }

  @Test
  void dump_fileNamedInTheEnvironment_isNotObeyed() throws Exception {
    String criu = RealCriu.command().get(0);
    assertDumpEndsTheTree(Map.of("CRIU_CONFIG_FILE", config().toString(), "GPUPROCESS_CRIU", criu));
  }
}
