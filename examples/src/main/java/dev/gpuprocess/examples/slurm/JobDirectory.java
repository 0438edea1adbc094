package dev.gpuprocess.examples.slurm;

import static java.nio.file.StandardCopyOption.ATOMIC_MOVE;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;

/** The directory of a job on the shared disk: its images, and what the next run must know. */
final class JobDirectory {

  private final Path path;

  private JobDirectory(Path path) {
    this.path = path;
  }

  /**
   * Opens the directory of a job. Job ids are used again after a controller has lost its state, so
   * the first run of a job never takes what another job has left.
   *
   * @param images the directory of all jobs
   * @param job the job
   * @param stale receives the place to which the directory of an earlier job was moved
   */
  static JobDirectory open(Path images, SlurmJob job, List<Path> stale) {
    Path path = images.toAbsolutePath().resolve(job.name());
    try {
      if (job.restarts() == 0 && Files.exists(path)) {
        Path aside = path.resolveSibling(job.name() + ".stale-" + System.currentTimeMillis());
        stale.add(Files.move(path, aside));
      }
      Files.createDirectories(path.resolve("images"));
    } catch (IOException e) {
      throw new UncheckedIOException(
          "the directory of the job cannot be made: " + e.getMessage(), e);
    }
    return new JobDirectory(path);
  }

  Path images() {
    return path.resolve("images");
  }

  /** Returns the file for output that cannot go to where this process writes. */
  Path output() {
    return path.resolve("output");
  }

  /** Returns the exit code of the command, if an earlier run has seen its end. */
  OptionalInt finished() {
    return read("finished")
        .map(text -> OptionalInt.of(Integer.parseInt(text.strip())))
        .orElse(OptionalInt.empty());
  }

  void recordFinished(int code) {
    record("finished", Integer.toString(code));
  }

  /** Returns the nodes on which the last restores have failed, the first one first. */
  List<String> failedNodes() {
    return read("failed-nodes").map(text -> text.lines().toList()).orElse(List.of());
  }

  void addFailedNode(String node) {
    List<String> nodes = new ArrayList<>(failedNodes());
    nodes.add(node);
    record("failed-nodes", String.join("\n", nodes));
  }

  void clearFailedNodes() {
    try {
      Files.deleteIfExists(path.resolve("failed-nodes"));
    } catch (IOException e) {
      throw failure("failed-nodes", e);
    }
  }

  private Optional<String> read(String name) {
    try {
      Path file = path.resolve(name);
      return Files.exists(file) ? Optional.of(Files.readString(file)) : Optional.empty();
    } catch (IOException e) {
      throw failure(name, e);
    }
  }

  /** The record is on disk and complete, or is not there. */
  private void record(String name, String text) {
    Path file = path.resolve(name);
    Path written = path.resolve(name + ".new");
    try {
      Files.writeString(written, text);
      sync(written);
      Files.move(written, file, ATOMIC_MOVE);
      sync(path);
    } catch (IOException e) {
      throw failure(name, e);
    }
  }

  private static void sync(Path path) throws IOException {
    try (FileChannel channel = FileChannel.open(path, StandardOpenOption.READ)) {
      channel.force(true);
    }
  }

  private UncheckedIOException failure(String name, IOException cause) {
    return new UncheckedIOException(
        "%s of the job cannot be read or written: %s"
            .formatted(path.resolve(name), cause.getMessage()),
        cause);
  }

  @Override
  public String toString() {
    return path.toString();
  }
}
