package dev.gpuprocess.examples.verification;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.RequiresCriu;
import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.SimulatedDriver;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The program of GPU machines on a simulated GPU. */
@RequiresCriu
class GpuVerifyTest {

  private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
  private final PrintStream out = new PrintStream(bytes, true, StandardCharsets.UTF_8);

  private List<String> table() {
    List<String> lines = bytes.toString(StandardCharsets.UTF_8).lines().toList();
    return lines.subList(lines.lastIndexOf("") + 1, lines.size());
  }

  @Test
  @Timeout(value = 8, unit = TimeUnit.MINUTES)
  void passesOnTheSimulatedDriver() {
    try (Machine machine = Machine.simulated("for a test")) {
      assertEquals(
          0, new GpuVerify(machine, out).run(), () -> bytes.toString(StandardCharsets.UTF_8));
    }
    assertRow("driver contract +passed +\\d\\d passed, 0 failed, 1 skipped");
    assertRow("counter +passed +101 -> 102");
    assertRow("pattern, 256 MiB +passed +ok 268435456 bytes after resume, ok .* after restore");
    assertRow("PyTorch trainer +skipped +PyTorch needs a real GPU");
    assertRow("PyTorch, loaders spawned +skipped +PyTorch needs a real GPU");
    assertRow("PyTorch, loaders forked +skipped +PyTorch needs a real GPU");
  }

  @Test
  @Timeout(value = 8, unit = TimeUnit.MINUTES)
  void reportsAFailureInTableAndExitCode() {
    SimulatedDriver driver = SimulatedDriver.create();
    try (Machine machine = Machine.on(driver, "for a fault")) {
      driver.faults(Fault.in("cuCheckpointProcessCheckpoint").answers(801));
      assertEquals(1, new GpuVerify(machine, out).runWorkloads());
    }
    assertRow("counter +failed +the driver cannot checkpoint process \\d+,.*");
    assertRow("pattern +failed +the driver cannot checkpoint process \\d+,.*");
  }

  private void assertRow(String form) {
    assertTrue(
        table().stream().anyMatch(line -> line.matches("  " + form)),
        () -> form + " is not in\n" + String.join("\n", table()));
  }
}
