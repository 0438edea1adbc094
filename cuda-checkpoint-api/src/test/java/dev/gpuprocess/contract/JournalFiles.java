package dev.gpuprocess.contract;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;

/** The journal entries in a state directory, as files. */
public final class JournalFiles {

  private JournalFiles() {}

  /** Lists the entries of processes; there are none where the directory does not exist. */
  public static List<Path> in(Path state) {
    if (!Files.exists(state)) {
      return List.of();
    }
    try (Stream<Path> files = Files.list(state)) {
      return files.filter(file -> file.toString().endsWith(".process")).toList();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Makes the entries those of a dead controller: no process has this start time. */
  public static void controllerDies(Path state) {
    for (Path entry : in(state)) {
      try {
        String text = Files.readString(entry);
        Files.writeString(entry, text.replaceAll("controller.start=\\d+", "controller.start=1"));
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }
  }
}
