package dev.gpuprocess.criu;

import dev.gpuprocess.criu.internal.dump.PipeSize;
import dev.gpuprocess.criu.internal.process.CriuCommand;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Assumptions;

/** Lets everybody on this machine have a pipe as large as a lazy dump needs, for a while. */
final class LargePipes implements AutoCloseable {

  private final String before;

  private LargePipes(String before) {
    this.before = before;
  }

  /** Skips the test where nobody may change it. */
  static LargePipes allow() {
    String before = read();
    if (!PipeSize.isEnough(CriuCommand.direct(Path.of("criu")))) {
      try {
        Files.writeString(PipeSize.LIMIT, Long.toString(PipeSize.NEEDED));
      } catch (IOException e) {
        Assumptions.abort(
            "no pipe of 4 MiB: CAP_SYS_RESOURCE is missing, and " + PipeSize.LIMIT + " is fixed");
      }
    }
    return new LargePipes(before);
  }

  private static String read() {
    try {
      return Files.readAllLines(PipeSize.LIMIT).get(0).strip();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Override
  public void close() {
    if (!read().equals(before)) {
      try {
        Files.writeString(PipeSize.LIMIT, before);
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }
  }
}
