package dev.gpuprocess.examples.zdtm;

import dev.gpuprocess.examples.zdtm.Way.FailedException;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * A command with a deadline. What it prints goes to a file: programs that stay in the background
 * would hold a pipe open.
 *
 * @param words the program and its arguments
 * @param directory where it runs
 * @param environment variables that are set for it
 */
record Command(List<String> words, Path directory, Map<String, String> environment) {

  private static final Duration LIMIT = Duration.ofSeconds(60);

  /**
   * How it ended.
   *
   * @param exit its exit code
   * @param printed what it printed to both streams, in Latin 1
   */
  record Ended(int exit, String printed) {

    /** The last line that says something; empty when there is none. */
    String lastLine() {
      List<String> lines = printed.strip().lines().toList();
      return lines.isEmpty() ? "" : lines.get(lines.size() - 1).strip();
    }
  }

  /** A command without variables. */
  static Command in(Path directory, String... words) {
    return new Command(List.of(words), directory, Map.of());
  }

  /** The same with one more variable. */
  Command with(String name, String value) {
    Map<String, String> more = new HashMap<>(environment);
    more.put(name, value);
    return new Command(words, directory, Map.copyOf(more));
  }

  /** Runs it for at most a minute. */
  Ended run() throws FailedException {
    return run(LIMIT);
  }

  /** Runs it. */
  Ended run(Duration limit) throws FailedException {
    return start().await(limit);
  }

  /**
   * Runs it and expects exit code 0.
   *
   * @throws FailedException also when it ends with another
   */
  void succeed() throws FailedException {
    Ended ended = run();
    if (ended.exit() != 0) {
      throw new FailedException(
          String.join(" ", words) + " ended with " + ended.exit() + ": " + ended.lastLine());
    }
  }

  /** Starts it. */
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
   * One that was started.
   *
   * @param name the program
   * @param process its process
   * @param printed what it prints
   */
  record Running(String name, Process process, Path printed) {

    /** Waits for its end; kills it when it does not come. */
    Ended await(Duration limit) throws FailedException {
      try {
        boolean ended = process.waitFor(limit.toSeconds(), TimeUnit.SECONDS);
        if (!ended) {
          process.destroyForcibly();
        }
        String text = Files.readString(printed, StandardCharsets.ISO_8859_1);
        Files.delete(printed);
        if (!ended) {
          throw new FailedException(name + " does not end: " + new Ended(-1, text).lastLine());
        }
        return new Ended(process.exitValue(), text);
      } catch (IOException e) {
        throw new FailedException("what " + name + " printed is lost: " + e.getMessage(), e);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new FailedException("interrupted", e);
      }
    }
  }
}
