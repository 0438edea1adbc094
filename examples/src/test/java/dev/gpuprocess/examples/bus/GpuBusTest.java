package dev.gpuprocess.examples.bus;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.gpuprocess.contract.RequiresCriu;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.examples.demo.Scratch;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The program of GPU machines on a simulated GPU. */
@RequiresCriu
@RequiresRoot("runs CRIU's command")
class GpuBusTest {

  @TempDir Path directory;

  @Test
  void measuresAndDrawsBothSides() throws Exception {
    assumeTrue(System.getenv("GPUPROCESS_CRIU") != null, "no CRIU was named");
    Path printed = Files.writeString(directory.resolve("run.txt"), measured());

    List<String> lines = Files.readAllLines(printed);
    String last = lines.get(lines.size() - 1);
    String times = "[0-9]+\\.[0-9]x, ";
    String part = "[0-9]+\\.[0-9]{2}";
    assertTrue(
        last.matches(
            "bus 16 MiB: suspend %1$scold pool %1$sresume %1$ssnapshot pause %2$s, dump to tmpfs %1$srestore from tmpfs %1$sto disk %2$s of direct, from disk %2$s of direct"
                .formatted(times, part)),
        last);
    try (var left = Files.list(directory)) {
      assertEquals(List.of(printed), left.toList());
    }
    // Two keys, and both sides of eight rows.
    assertEquals(2 + 2 * 8, chart(printed).stream().filter(GpuBusTest::isBar).count());
  }

  private String measured() throws IOException, InterruptedException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (Machine machine = Machine.simulated("for a test");
        Scratch tmpfs = Scratch.of(Files.createTempDirectory(Path.of("/dev/shm"), "gpu-bus"));
        PrintStream out = new PrintStream(bytes, true, StandardCharsets.UTF_8)) {
      Place place = new Place(tmpfs.resolve(""), directory);
      new GpuBus(machine, place, out).run(List.of(Size.of("16m")), false, false);
    }
    return bytes.toString(StandardCharsets.UTF_8);
  }

  private static List<String> chart(Path run) throws IOException, InterruptedException {
    Path bin = Path.of(System.getProperty("gpuprocess.root"), "bin");
    Process chart =
        new ProcessBuilder(bin.resolve("lab/bus-chart").toString(), run.toString()).start();
    String svg = new String(chart.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(0, chart.waitFor());
    return svg.lines().toList();
  }

  private static boolean isBar(String line) {
    return line.contains("<rect class=\"");
  }
}
