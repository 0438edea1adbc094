package dev.gpuprocess.examples.demo;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.RequiresCriu;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

@Tag("jdk")
class DemoTest {

  private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
  private final PrintStream out = new PrintStream(bytes, true, StandardCharsets.UTF_8);

  private String shown() {
    return bytes.toString(StandardCharsets.UTF_8);
  }

  @Test
  @RequiresCriu
  void continuesTheCounter() {
    assertEquals(0, Demo.run(true, out), this::shown);
    assertTrue(
        Pattern.compile("^main job: 101 -> 102, gpu=simulated, \\d+\\.\\d s$", Pattern.MULTILINE)
            .matcher(shown())
            .find(),
        this::shown);
    for (String step : new String[] {"lock", "checkpoint", "dump", "criu restore", "unlock"}) {
      long times = shown().lines().filter(line -> line.startsWith("  " + step + " ")).count();
      assertTrue(times >= 2, step + " is not printed twice: at once and in the table\n" + shown());
    }
    assertFalse(
        Pattern.compile("^ *(checkpoint|restore) .*GB/s$", Pattern.MULTILINE)
            .matcher(shown())
            .find(),
        () -> "a speed of simulated memory is printed\n" + shown());
    assertFalse(shown().contains("\u001b"), "escape codes");
  }

  @Test
  @RequiresCriu
  void leavesNoProcessAfterAFailure() {
    SimulatedDriver driver = SimulatedDriver.create();
    try (Machine machine = Machine.on(driver, "for a fault")) {
      driver.faults(Fault.in("cuCheckpointProcessRestore").answers(801));
      assertThrows(
          GpuCheckpointException.class,
          () -> MainJob.run(machine, new Progress(out, machine)),
          this::shown);
    }
    Matcher pid = Pattern.compile("pid (\\d+) on").matcher(shown());
    assertTrue(pid.find(), this::shown);
    assertTrue(
        Await.until(
            Duration.ofSeconds(60),
            () ->
                ProcessIdentity.of(Long.parseLong(pid.group(1)))
                    .filter(ProcessIdentity::isAlive)
                    .isEmpty()));
    assertTrue(
        Pattern.compile("^  restore +failed$", Pattern.MULTILINE).matcher(shown()).find(),
        this::shown);
  }
}
