package dev.gpuprocess.examples.demo;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.stream.Stream;

/** A directory that is deleted with its content when it is closed. */
public final class Scratch implements AutoCloseable {

  private final Path directory;

  private Scratch(Path directory) {
    this.directory = directory;
  }

  public static Scratch create() {
    try {
      return new Scratch(Files.createTempDirectory("gpuprocess"));
    } catch (IOException e) {
      throw new UncheckedIOException("cannot make a temporary directory", e);
    }
  }

  /** Takes an existing directory. */
  public static Scratch of(Path directory) {
    return new Scratch(directory);
  }

  public Path resolve(String name) {
    return directory.resolve(name);
  }

  @Override
  public void close() {
    try (Stream<Path> files = Files.walk(directory)) {
      for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
        Files.delete(file);
      }
    } catch (IOException e) {
      throw new UncheckedIOException("cannot delete " + directory, e);
    }
  }
}
