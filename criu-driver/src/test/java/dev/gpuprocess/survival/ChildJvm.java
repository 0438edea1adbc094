package dev.gpuprocess.survival;

import dev.gpuprocess.contract.TestJvm;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Starts a main class of the tests in a JVM of its own, which starts quickly. */
final class ChildJvm {

  private static final List<String> FLAGS =
      List.of("-Xmx192m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error");

  private ChildJvm() {}

  /**
   * Starts it; its errors go where ours go.
   *
   * @param temporary where it puts temporary files
   * @param environment more variables
   */
  static Process start(
      Class<?> main, Path temporary, Map<String, String> environment, List<String> arguments) {
    return start(List.of(), List.of(), main, temporary, environment, arguments);
  }

  /**
   * Starts it by way of a command, with more options.
   *
   * @param by a command that executes its arguments, or nothing
   * @param options of the JVM
   */
  static Process start(
      List<String> by,
      List<String> options,
      Class<?> main,
      Path temporary,
      Map<String, String> environment,
      List<String> arguments) {
    List<String> command = new ArrayList<>(by);
    command.addAll(TestJvm.quick(FLAGS));
    command.addAll(options);
    command.add("-Djava.io.tmpdir=" + temporary);
    command.add(main.getName());
    command.addAll(arguments);
    ProcessBuilder builder = new ProcessBuilder(command);
    builder.environment().putAll(environment);
    builder.redirectError(ProcessBuilder.Redirect.INHERIT);
    try {
      return builder.start();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
