package dev.gpuprocess.examples.zdtm;

import dev.gpuprocess.examples.zdtm.Way.FailedException;
import dev.gpuprocess.internal.linux.DurableFiles;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * The descriptors and mounts of the processes of a program with namespaces of its own, which must
 * be the same after the restore.
 */
final class VisibleState {

  private final Map<String, List<String>> seen = new TreeMap<>();

  /** Reads the state through the {@code /proc} of the pid namespace. */
  static VisibleState of(int pid) throws FailedException {
    VisibleState state = new VisibleState();
    Path proc = Path.of("/proc", Integer.toString(pid), "root", "proc");
    try {
      for (Path process : DurableFiles.list(proc)) {
        String name = process.getFileName().toString();
        if (name.matches("\\d+")) {
          state.seen.put(
              "the descriptors of process " + name,
              DurableFiles.list(process.resolve("fd")).stream()
                  .map(fd -> fd.getFileName().toString())
                  .toList());
          state.seen.put("the mounts of process " + name, mounts(process));
        }
      }
      return state;
    } catch (IOException e) {
      throw new FailedException("the /proc of the program cannot be read: " + e.getMessage(), e);
    }
  }

  /**
   * Returns root, mount point, options and propagation, without the numbers that the kernel
   * assigns.
   */
  private static List<String> mounts(Path process) throws IOException {
    // The mountinfo of a zombie cannot be read.
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

  /** Checks that a later state has everything of this one. */
  void requireSame(VisibleState later) throws FailedException {
    for (Map.Entry<String, List<String>> each : seen.entrySet()) {
      List<String> values = later.seen.getOrDefault(each.getKey(), List.of());
      if (!each.getValue().equals(values)) {
        throw new FailedException(
            each.getKey() + " were " + each.getValue() + " and are " + values);
      }
    }
  }
}
