package dev.gpuprocess.examples.zdtm;

import dev.gpuprocess.examples.zdtm.Way.FailedException;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * A command with a deadline. Its output goes to a file, because programs that stay in the
 * background would hold a pipe open.
 *
 * @param words the program and its arguments
 * @param directory its working directory
 * @param environment the environment variables to add
 */
record Command(List<String> words, Path directory, Map<String, String> environment) {

  private static final Duration LIMIT = Duration.ofSeconds(60);

  /**
   * The result of a command.
   *
   * @param exit the exit code
   * @param printed the output to both streams, in Latin 1
   */
  record Ended(int exit, String printed) {

    /** Returns the last line that is not blank; empty without one. */
    String lastLine() {
      List<String> lines = printed.strip().lines().toList();
      return lines.isEmpty() ? "" : lines.get(lines.size() - 1).strip();
    }
  }

  /** Returns a command without variables. */
  static Command in(Path directory, String... words) {
    return new Command(List.of(words), directory, Map.of());
  }

  /** Runs the command for at most a minute. */
  Ended run() throws FailedException {
    return run(LIMIT);
  }

  /** Runs the command. */
  Ended run(Duration limit) throws FailedException {
    return start().await(limit);
  }

  /**
   * Runs the command.
   *
   * @throws FailedException also if the exit code is not 0
   */
  void succeed() throws FailedException {
    Ended ended = run();
    if (ended.exit() != 0) {
      throw new FailedException(
          String.join(" ", words) + " exited with " + ended.exit() + ": " + ended.lastLine());
    }
  }

  /** Starts the command. */
  Running start() throws FailedException {
    try {
      Path printed = Files.createTempFile("printed", "");
      ProcessBuilder builder =
          new ProcessBuilder(words)
              .directory(directory.toFile())
              .redirectInput(new File("/dev/null"))
              .redirectErrorStream(true)
              .redirectOutput(printed.toFile());
      builder.environment().putAll(environment);
      return new Running(words.get(0), builder.start(), printed);
    } catch (IOException e) {
      throw new FailedException(words.get(0) + " cannot be started: " + e.getMessage(), e);
    }
  }

  /**
   * A command that was started.
   *
   * @param name the program
   * @param process its process
   * @param printed the file with its output
   */
  record Running(String name, Process process, Path printed) {

    /** Waits for the exit, and kills the process at the limit. */
    Ended await(Duration limit) throws FailedException {
      try {
        boolean ended = process.waitFor(limit.toSeconds(), TimeUnit.SECONDS);
        if (!ended) {
          process.destroyForcibly();
        }
        String text = Files.readString(printed, StandardCharsets.ISO_8859_1);
        Files.delete(printed);
        if (!ended) {
          throw new FailedException(
              name + " did not exit in time: " + new Ended(-1, text).lastLine());
        }
        return new Ended(process.exitValue(), text);
      } catch (IOException e) {
        throw new FailedException(
            "the output of " + name + " cannot be read: " + e.getMessage(), e);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new FailedException("interrupted", e);
      }
    }
  }
}
