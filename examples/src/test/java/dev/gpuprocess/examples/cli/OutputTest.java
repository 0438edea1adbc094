package dev.gpuprocess.examples.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** Records as tables and as lines of name and value. */
class OutputTest {

  private final ByteArrayOutputStream printed = new ByteArrayOutputStream();
  private final Output output =
      new Output(new PrintStream(printed, true, StandardCharsets.UTF_8), false);

  @Test
  void headingsNameTheirFields() {
    Map<String, @Nullable Object> value = new LinkedHashMap<>();
    value.put("gpuBytes", 3L << 20);
    value.put("gpus", List.of("GPU-1"));
    value.put("gpuBytesKnown", true);
    value.put("sizeBytes", 5L);
    output.details(value);
    assertEquals(
        List.of(
            "GPU MEMORY       3.0 MiB",
            "GPUS             GPU-1",
            "GPU BYTES KNOWN  true",
            "SIZE             5 B"),
        lines());
  }

  @Test
  void columnsAreAsWideAsTheirHeadings() {
    Map<String, @Nullable Object> value = new LinkedHashMap<>();
    value.put("pid", 7);
    value.put("gpuBytes", null);
    value.put("gpus", List.of("GPU-1", "GPU-2"));
    output.table(List.of(value), "pid", "gpuBytes", "gpus");
    assertEquals(List.of("PID  GPU MEMORY  GPUS", "7    -           GPU-1 GPU-2"), lines());
  }

  private List<String> lines() {
    return printed.toString(StandardCharsets.UTF_8).lines().toList();
  }
}
