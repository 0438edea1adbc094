package dev.gpuprocess.internal.image;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.OutsideUse;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A log that CRIU has filled with repeated lines is shortened. */
@NullUnmarked
@OutsideUse("D7")
class LongLogTest {

  @TempDir Path directory;

  @Test
  void keepsTheBeginningAndTheEnd() throws IOException {
    Path log =
        Files.writeString(directory.resolve("restore.log"), "begin" + "x".repeat(9_990) + "close");
    LogDirectory.shorten(log, 8);
    assertEquals("beginxxx\n(9984 bytes are omitted here)\nxxxclose", Files.readString(log));
  }

  @Test
  void whatIsShortStaysAsItIs() throws IOException {
    for (int length = 0; length <= 60; length++) {
      Path log = Files.writeString(directory.resolve("restore.log"), "x".repeat(length));
      LogDirectory.shorten(log, 8);
      assertTrue(Files.size(log) <= length, "one of " + length + " bytes has grown");
    }
    Path log = Files.writeString(directory.resolve("restore.log"), "0123456789abcdef");
    LogDirectory.shorten(log, 8);
    assertEquals("0123456789abcdef", Files.readString(log));
  }

  @Test
  void keptLogsAreShortened() throws IOException {
    Path log = directory.resolve("restore.log");
    byte[] line = new byte[1 << 20];
    Arrays.fill(line, (byte) '.');
    try (OutputStream out = Files.newOutputStream(log)) {
      for (int i = 0; i < 100; i++) {
        out.write(line);
      }
    }
    new LogDirectory(directory).keep();
    assertTrue(
        Files.size(log) < 2 * LogDirectory.LOG_PART + 100, "it has " + Files.size(log) + " bytes");
    assertTrue(Files.exists(directory.resolve(LogDirectory.KEPT)));
  }
}
