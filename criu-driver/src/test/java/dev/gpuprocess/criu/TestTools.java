package dev.gpuprocess.criu;

import dev.gpuprocess.fixtures.ProgramRun;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/** Small C programs that tests need; their sources are beside the classes that use them. */
public final class TestTools {

  private TestTools() {}

  /**
   * Compiles one. Needs gcc.
   *
   * @param beside the class whose resource the source is
   * @param name without the suffix
   * @param directory where source and program go
   * @return the program
   */
  public static Path compile(Class<?> beside, String name, Path directory, String... options) {
    Path source = directory.resolve(name + ".c");
    try (InputStream text = beside.getResourceAsStream(name + ".c")) {
      Files.copy(Objects.requireNonNull(text, name), source);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    Path program = directory.resolve(name);
    List<String> command = new ArrayList<>(List.of("gcc", "-Wall", "-Werror", "-O1"));
    command.addAll(List.of(options));
    command.addAll(List.of("-o", program.toString(), source.toString()));
    ProgramRun.of(command.toArray(String[]::new)).succeed();
    return program;
  }
}
