package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.criu.internal.log.CriuLog;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@NullUnmarked
class CriuLogTest {

  @TempDir Path directory;

  private CriuLog read(String text) throws IOException {
    return CriuLog.read(Files.writeString(directory.resolve("log"), text));
  }

  @Test
  void noLog() throws IOException {
    assertEquals(CriuLog.NONE, CriuLog.read(directory.resolve("none")));
  }

  @Test
  void errors_withoutTimestampTaskAndPosition() throws IOException {
    CriuLog log =
        read(
            """
            (00.000012) Version: 4.2.1 (gitid 0)
            (00.000020) Error (criu/rlimit.c:1): rlimit: Can't setup RLIMIT_NOFILE for self: denied
            (00.012345) Warn  (criu/a.c:12): something odd
            (00.047475) Error (criu/sk-inet.c:191): inet: Connected TCP socket, consider --x option.
            (12.047475)   4711: Error (criu/files.c:1): bad file
            pie: 17979: Error (criu/pie/restorer.c:2): Can't read pages data (-9)
            (100.04747) Error (criu/cr-dump.c:1545): Dump files (pid: 17979) failed with -1
            (00.048317) Error (criu/cr-dump.c:1975): Dumping FAILED.
            """);
    assertEquals(
        List.of(
            "inet: Connected TCP socket, consider --x option.",
            "bad file",
            "Can't read pages data (-9)"),
        log.errors());
    assertEquals("something odd", log.lastWarning());
  }

  @Test
  void errors_atLogLevelOne_haveNoTimestamp() throws IOException {
    assertEquals(
        List.of("No space left on device"),
        read("Error (criu/image.c:7): No space left on device\n").errors());
  }

  @Test
  void bytesThatAreNoText_areReplaced() throws IOException {
    byte[] line = "Error (a.c:1): bad name ?\n".getBytes(java.nio.charset.StandardCharsets.UTF_8);
    line[line.length - 2] = (byte) 0xff;
    Path file = Files.write(directory.resolve("log"), line);
    assertEquals(List.of("bad name \ufffd"), CriuLog.read(file).errors());
  }

  @Test
  void aVeryLongLog_isReadAtBothEnds() throws IOException {
    Path file = directory.resolve("log");
    Files.writeString(file, "Error (a.c:1): first\n");
    try (var channel =
        java.nio.channels.FileChannel.open(file, java.nio.file.StandardOpenOption.WRITE)) {
      byte[] last = "\nError (a.c:1): last\n".getBytes(java.nio.charset.StandardCharsets.UTF_8);
      channel.write(java.nio.ByteBuffer.wrap(last), 1L << 31); // sparse
    }
    CriuLog log = CriuLog.read(file);
    assertEquals(List.of("first", "last"), log.errors());
    assertTrue(log.tail().length() <= 16 << 10);
  }
}
