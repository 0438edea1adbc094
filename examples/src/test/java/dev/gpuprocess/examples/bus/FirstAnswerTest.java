package dev.gpuprocess.examples.bus;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.gpuprocess.contract.RequiresCriu;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.examples.demo.Scratch;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The program of GPU machines on a simulated GPU, with a process without PyTorch. */
@RequiresCriu
@RequiresRoot("runs CRIU's command")
class FirstAnswerTest {

  @TempDir Path directory;

  @Test
  void answersEquallyFromEachImage() throws Exception {
    assumeTrue(System.getenv("GPUPROCESS_CRIU") != null, "no CRIU was named");
    assumeTrue(Files.isExecutable(Path.of("/usr/bin/python3")), "no python3");
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (Machine machine = Machine.simulated("for a test");
        Scratch tmpfs = Scratch.of(Files.createTempDirectory(Path.of("/dev/shm"), "gpu-bus"));
        PrintStream out = new PrintStream(bytes, true, StandardCharsets.UTF_8)) {
      Place place = new Place(tmpfs.resolve(""), directory);
      new FirstAnswer(machine, place, out).run(Size.of("4m"), Size.of("4m"));
    }
    List<String> lines = bytes.toString(StandardCharsets.UTF_8).lines().toList();
    String times = "[0-9.]+ s from tmpfs, [0-9.]+ s from the page cache, [0-9.]+ s cold from disk";
    String last = lines.get(lines.size() - 1);
    assertTrue(
        last.matches(
            "serving engine, 4 MiB on the GPU and 4 MiB in host memory, restore to first answer: "
                + times
                + "; raw "
                + times),
        last);
    try (var left = Files.list(directory)) {
      assertEquals(List.of(), left.toList());
    }
  }
}
