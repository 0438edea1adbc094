package dev.gpuprocess.criu;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** The lines that bin/verify shows at its end. */
final class Figures {

  private static final String PROPERTY = "gpuprocess.figures";

  private Figures() {}

  static void tell(String line) {
    String file = System.getProperty(PROPERTY);
    if (file == null) {
      System.out.println(line);
      return;
    }
    try {
      Path path = Path.of(file);
      Files.createDirectories(path.toAbsolutePath().getParent());
      Files.writeString(
          path,
          line + System.lineSeparator(),
          StandardOpenOption.CREATE,
          StandardOpenOption.APPEND);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
