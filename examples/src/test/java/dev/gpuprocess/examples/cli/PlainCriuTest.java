package dev.gpuprocess.examples.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import com.google.gson.JsonElement;
import com.google.gson.JsonParser;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.contract.RequiresCriu;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The criu command alone dumps and restores a process that a command took off its GPU. */
@RequiresRoot("traces other processes and runs CRIU's command")
@SimulatedGpu
class PlainCriuTest {

  /** More than the size from which copies are divided among threads, and GPU memory is in files. */
  private static final int MIB = 300;

  private static final String WHOLE = "ok %s bytes".formatted((long) MIB << 20);

  private static final Duration PATIENCE = Duration.ofMinutes(3);

  @TempDir private Path images;

  private final GpuCheckpoints machine;
  private final Pattern process;

  PlainCriuTest(GpuCheckpoints machine, SimulatedDriver driver) {
    this.machine = machine;
    this.process = driver.start(Pattern.launch(MIB).notOurChild());
  }

  private Call call(String command) {
    return Call.line(machine, command.formatted(process.pid()));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "suspend %s",
        "lock %s; checkpoint %s",
        "cuda-checkpoint --toggle --pid %s",
        "cu_check lock %s; cu_check checkpoint %s"
      })
  @RequiresCriu
  void dumpsAndRestoresWhatWasTakenOffItsGpu(String commands) {
    for (String each : commands.split("; ")) {
      assertDone(call(each));
    }
    PlainCriu.run(images, "dump", "--tree", process.pid());
    assertTrue(process.awaitExit(PATIENCE), "the process ends with its dump");
    PlainCriu.run(images, "restore", "--restore-detached");
    assertDone(call("resume %s"));
    assertEquals(WHOLE, process.verify());
  }

  @Test
  @RequiresCriu
  void describeNamesAnImageThatItDoesNotRestore() {
    Path image = images.resolve("image");
    assertDone(call("dump %s " + image));
    assumeFalse(machine.open(image).manifest().memoryFiles().isEmpty(), "no memory files here");
    assertTrue(process.awaitExit(PATIENCE), "the process ends with its dump");
    Call described = call("images describe " + image);
    assertEquals("-", described.detail("PLAIN CRIU"));
    String problem = described.detail("PLAIN CRIU PROBLEM");
    assertTrue(problem.startsWith("GPU memory is in files"), problem);
    AssertionError refused =
        assertThrows(
            AssertionError.class,
            () -> PlainCriu.run(image.resolve("criu"), "restore", "-d", "--work-dir", images));
    assertTrue(PlainCriu.logs(images).contains("Restoring FAILED"), refused::toString);
    assertDone(call("restore-image " + image));
    assertEquals(WHOLE, process.verify());
  }

  private static void assertDone(Call call) {
    assertEquals(0, call.code(), call::toString);
  }

  @ParameterizedTest
  @ValueSource(strings = {"suspend", "toggle", "checkpoint"})
  void saveFilesAreAnOption(String command) {
    assertEquals(List.of(), preparations(command));
    assertEquals(List.of("prepare"), preparations(command + " --save-files"));
    assertEquals(WHOLE, process.verify());
  }

  /** Returns the steps of a command in which host memory was taken. */
  private List<String> preparations(String command) {
    if (command.startsWith("checkpoint")) {
      assertEquals(0, call("lock %s").code());
    }
    Call call = call(command + " %s --json");
    assertEquals(0, call.code(), call::toString);
    List<String> steps =
        JsonParser.parseString(call.out())
            .getAsJsonObject()
            .getAsJsonArray("steps")
            .asList()
            .stream()
            .map(JsonElement::getAsJsonObject)
            .map(step -> step.get("name").getAsString())
            .filter("prepare"::equals)
            .toList();
    assertEquals(0, call("resume %s").code());
    return steps;
  }
}
