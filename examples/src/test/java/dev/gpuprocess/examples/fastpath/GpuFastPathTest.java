package dev.gpuprocess.examples.fastpath;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.gpuprocess.contract.RequiresCriu;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.examples.demo.Machine;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The program for GPU machines, tried on a simulated GPU. */
@RequiresCriu
@RequiresRoot("runs CRIU's command")
class GpuFastPathTest {

  @TempDir Path directory;

  @Test
  void bothWaysAreMeasuredAndDrawn() throws Exception {
    assumeTrue(System.getenv("GPUPROCESS_CRIU") != null, "no CRIU was named");
    Path printed = Files.writeString(directory.resolve("run.txt"), measured());

    List<String> lines = Files.readAllLines(printed);
    String last = lines.get(lines.size() - 1);
    String times = " [0-9]+\\.[0-9]x, ";
    assertTrue(
        last.matches(
            "fast path 16 MiB: suspend"
                + times
                + "dump to tmpfs"
                + times
                + "restore from tmpfs"
                + times
                + "to disk [0-9]+\\.[0-9]{2} of direct, pause [0-9]+\\.[0-9]{2}"),
        last);
    try (var left = Files.list(directory)) {
      assertEquals(List.of(printed), left.toList());
    }
    // two keys, and three steps of two rows both ways, besides the ground
    assertEquals(2 + 2 * 3 * 2, chart(printed).stream().filter(GpuFastPathTest::isBar).count());
  }

  private String measured() throws IOException, InterruptedException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (Machine machine = Machine.simulated("for a test");
        PrintStream out = new PrintStream(bytes, true, StandardCharsets.UTF_8)) {
      new GpuFastPath(machine, out).run(directory, directory, List.of(Size.of("16m")), 60);
    }
    return bytes.toString(StandardCharsets.UTF_8);
  }

  private static List<String> chart(Path run) throws IOException, InterruptedException {
    Path bin = Path.of(System.getProperty("gpuprocess.root"), "bin");
    Process chart =
        new ProcessBuilder(bin.resolve("fast-path-chart").toString(), run.toString()).start();
    String svg = new String(chart.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(0, chart.waitFor());
    return svg.lines().toList();
  }

  private static boolean isBar(String line) {
    return line.contains("<rect class=\"");
  }
}
