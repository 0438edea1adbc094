package dev.gpuprocess.examples.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.gson.JsonParser;
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

  /** A process chooses its arguments, and could else print lines of its own. */
  @Test
  void aRecordIsOneLine() {
    Map<String, @Nullable Object> value = new LinkedHashMap<>();
    value.put("command", List.of("python", "-c", "a\n8  ROOT"));
    value.put("label", "b\n9");
    output.table(List.of(value), "command", "label");
    output.details(value);
    assertEquals(
        List.of(
            "COMMAND              LABEL",
            "python -c a 8  ROOT  b 9",
            "COMMAND  python -c a 8  ROOT",
            "LABEL    b 9"),
        lines());
  }

  @Test
  void gpuMemoryThatIsNotKnownIsNotNone() {
    Map<String, @Nullable Object> unknown = new LinkedHashMap<>();
    unknown.put("gpuBytes", Map.of());
    Map<String, @Nullable Object> partlyKnown = new LinkedHashMap<>();
    partlyKnown.put("gpuBytes", Map.of("GPU-1", 3L << 20));
    partlyKnown.put("gpuBytesKnown", false);
    Map<String, @Nullable Object> none = new LinkedHashMap<>();
    none.put("gpuBytes", Map.of());
    none.put("gpuBytesKnown", true);
    output.table(List.of(unknown, partlyKnown, none), "gpuBytes");
    assertEquals(List.of("GPU MEMORY", "-", ">= 3.0 MiB", "0 B"), lines());
  }

  @Test
  void jsonNeedsNoCharactersButAscii() {
    Map<String, @Nullable Object> value = new LinkedHashMap<>();
    value.put("command", "mod\u00e8le \ud83d\ude00 \u007f~");
    String line = Output.line(value);
    assertEquals("{\"command\":\"mod\\u00e8le \\ud83d\\ude00 \\u007f~\"}", line);
    assertEquals(
        value.get("command"),
        JsonParser.parseString(line).getAsJsonObject().get("command").getAsString());
  }

  private List<String> lines() {
    return printed.toString(StandardCharsets.UTF_8).lines().toList();
  }
}
