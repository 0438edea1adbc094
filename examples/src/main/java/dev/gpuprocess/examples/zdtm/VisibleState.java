package dev.gpuprocess.examples.zdtm;

import dev.gpuprocess.examples.zdtm.Way.FailedException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;

/**
 * What the outside sees of a program with namespaces of its own, and what must be the same after
 * the restore: descriptors and mounts of each of its processes.
 */
final class VisibleState {

  private final Map<String, List<String>> seen = new TreeMap<>();

  /** Looks, through the pid namespace's own {@code /proc}. */
  static VisibleState of(int pid) throws FailedException {
    VisibleState state = new VisibleState();
    Path proc = Path.of("/proc", Integer.toString(pid), "root", "proc");
    try {
      for (Path process : list(proc)) {
        String name = process.getFileName().toString();
        if (name.matches("\\d+")) {
          state.seen.put(
              "the descriptors of process " + name,
              list(process.resolve("fd")).stream().map(fd -> fd.getFileName().toString()).toList());
          state.seen.put("the mounts of process " + name, mounts(process));
        }
      }
      return state;
    } catch (IOException | UncheckedIOException e) {
      throw new FailedException("its /proc cannot be read: " + e.getMessage(), e);
    }
  }

  private static List<Path> list(Path directory) throws IOException {
    try (Stream<Path> files = Files.list(directory)) {
      return files.sorted().toList();
    }
  }

  /** Root, point, options and propagation; not the numbers, which the kernel gives out. */
  private static List<String> mounts(Path process) throws IOException {
    // A zombie has a file that cannot be read.
    if (Files.readString(process.resolve("stat"), StandardCharsets.ISO_8859_1)
        .matches("(?s).*\\) Z .*")) {
      return List.of();
    }
    return Files.readAllLines(process.resolve("mountinfo"), StandardCharsets.ISO_8859_1).stream()
        .map(line -> line.replaceFirst(" - .*", "").replaceAll("(shared|master):\\d+", "$1"))
        .map(line -> line.replaceAll("propagate_from:\\d+", "").split(" ", 4)[3].strip())
        .sorted()
        .toList();
  }

  /** Checks that all that was there is there again. */
  void requireSame(VisibleState now) throws FailedException {
    for (Map.Entry<String, List<String>> each : seen.entrySet()) {
      List<String> later = now.seen.getOrDefault(each.getKey(), List.of());
      if (!each.getValue().equals(later)) {
        throw new FailedException(each.getKey() + " were " + each.getValue() + " and are " + later);
      }
    }
  }
}
