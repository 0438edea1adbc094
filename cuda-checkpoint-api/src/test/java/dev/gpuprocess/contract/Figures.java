package dev.gpuprocess.contract;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** The lines that {@code bin/verify} prints at its end. */
public final class Figures {

  private Figures() {}

  /** Adds a line; prints it if figures are not collected. */
  public static void add(String line) {
    String file = System.getProperty("gpuprocess.figures");
    if (file == null) {
      System.out.println(line);
    } else {
      append(Path.of(file), line);
    }
  }

  private static void append(Path file, String line) {
    try {
      Files.createDirectories(file.toAbsolutePath().getParent());
      Files.writeString(file, line + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
