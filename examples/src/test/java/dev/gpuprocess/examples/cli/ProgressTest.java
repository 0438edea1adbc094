package dev.gpuprocess.examples.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The progress line. */
@SimulatedGpu
class ProgressTest {

  private static final long GIB = 1L << 30;

  @TempDir private Path directory;

  @Test
  void lineHasBytesRateAndTimeLeft() {
    assertEquals("write            2.00 s", Progress.line("write", 2, 0, 0));
    assertEquals("write            2.00 s  of 8.0 GiB", Progress.line("write", 2, 0, 8 * GIB));
    assertEquals(
        "write            2.00 s  1.0 GiB  512.0 MiB/s", Progress.line("write", 2, GIB, 0));
    assertEquals(
        "write            2.00 s  [#####               ]  1.0 GiB  512.0 MiB/s  6 s left",
        Progress.line("write", 2, GIB, 4 * GIB));
    // More than was expected.
    assertEquals(
        "write            2.00 s  [####################]  1.0 GiB  512.0 MiB/s  0 s left",
        Progress.line("write", 2, GIB, GIB / 2));
  }

  /** The same command with a terminal, which the program script makes, and without. */
  @Test
  void isShownOnATerminalOnly(GpuCheckpoints machine, SimulatedDriver driver, Counter counter)
      throws Exception {
    // Longer than the interval of the line.
    driver.faults(Fault.in("cuCheckpointProcessCheckpoint").hangs(Duration.ofSeconds(1)));
    String command = String.join(" ", Call.program(driver, machine, List.of()));
    String shown = output("script", "-qefc", command + " suspend " + counter.pid(), "/dev/null");
    // A carriage return ends a line here, too.
    assertTrue(shown.lines().anyMatch(each -> each.matches("checkpoint .* s left *")), shown);
    assertTrue(shown.lines().anyMatch(each -> each.matches("checkpoint .* MiB/s")), shown);
    String last = shown.lines().filter(each -> !each.isBlank()).reduce((a, b) -> b).orElseThrow();
    assertTrue(last.startsWith("process " + counter.pid() + ": running -> checkpointed"), shown);
    driver.clearFaults();
    String plain = output("sh", "-c", command + " resume " + counter.pid());
    assertEquals(1, plain.lines().count(), plain);
    assertFalse(plain.contains("\r"), plain);
    assertEquals(101, counter.increment());
  }

  private String output(String... command) throws Exception {
    Path out = directory.resolve("output");
    Process process =
        new ProcessBuilder(command)
            .redirectInput(new File("/dev/null"))
            .redirectErrorStream(true)
            .redirectOutput(out.toFile())
            .start();
    assertTrue(process.waitFor(60, TimeUnit.SECONDS));
    String text = Files.readString(out);
    assertEquals(0, process.exitValue(), text);
    return text;
  }
}
