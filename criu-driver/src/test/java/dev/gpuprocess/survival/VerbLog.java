package dev.gpuprocess.survival;

import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Instant;
import java.util.List;
import java.util.stream.Stream;

/**
 * The verbs of a soak for each process, in one file to which all controllers append, so that a
 * violation shows its history. The file is open from the beginning, because a controller without
 * descriptors writes too.
 */
final class VerbLog {

  private static final int LINES = 40;

  private final OutputStream out;

  private VerbLog(OutputStream out) {
    this.out = out;
  }

  static Path beside(Path images) {
    return images.resolveSibling("verbs.log");
  }

  static VerbLog open(Path file) {
    try {
      return new VerbLog(
          Files.newOutputStream(file, StandardOpenOption.CREATE, StandardOpenOption.APPEND));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  void tell(int pid, String who, String what) {
    String line = "%s %s %s %s%n".formatted(Integer.toString(pid), Instant.now(), who, what);
    try {
      out.write(line.getBytes(StandardCharsets.UTF_8));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** The last lines about a process, oldest first. */
  static String last(Path file, int pid) {
    try (Stream<String> lines = Files.lines(file)) {
      List<String> about = lines.filter(line -> line.startsWith(pid + " ")).toList();
      return String.join("\n  ", about.subList(Math.max(0, about.size() - LINES), about.size()));
    } catch (IOException e) {
      return e.toString();
    }
  }
}
