package dev.gpuprocess.examples.cli;

import dev.gpuprocess.examples.demo.Await;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.function.BooleanSupplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * An interactive bash in a pseudo-terminal, which the program script makes. Commands are typed into
 * it. For one thread.
 */
final class TerminalShell implements AutoCloseable {

  private static final Duration PATIENCE = Duration.ofMinutes(3);
  private static final Pattern PID = Pattern.compile("pid-(\\d+)");
  private static final int CTRL_C = 3;

  private final Path output;
  private final Process terminal;
  private final OutputStream keys;
  private int typed;

  /**
   * Starts the shell.
   *
   * @param directory for the files of the shell
   * @param definitions what the shell reads at its start, such as functions
   */
  TerminalShell(Path directory, List<String> definitions) throws IOException {
    output = directory.resolve("screen");
    Path start = Files.write(directory.resolve("start"), definitions);
    // A JVM that was started in the background ignores SIGINT, and its children with it.
    ProcessBuilder builder =
        new ProcessBuilder(
                List.of(
                    "env",
                    "--default-signal=INT,QUIT,HUP",
                    "TERM=dumb",
                    "script",
                    "-qefc",
                    "bash --noprofile --rcfile " + start + " -i",
                    "/dev/null"))
            .redirectErrorStream(true)
            .redirectOutput(output.toFile());
    terminal = builder.start();
    keys = terminal.getOutputStream();
  }

  /**
   * Types a command, and waits until the shell is ready for the next one.
   *
   * @throws AssertionError if the exit code is not 0
   */
  void run(String command) {
    int code = code(command);
    if (code != 0) {
      throw new AssertionError(command + " exited with " + code + " in\n" + screen());
    }
  }

  /** Does the same and returns the exit code. */
  int code(String command) {
    typed++;
    // The terminal echoes what is typed, so the mark is typed in two parts.
    press(command + "; code=$?; echo 'en''d'-" + typed + "-$code\n");
    Pattern end = Pattern.compile("end-" + typed + "-(\\d+)");
    await(command, () -> end.matcher(screen()).find());
    Matcher found = end.matcher(screen());
    return found.find() ? Integer.parseInt(found.group(1)) : -1;
  }

  /** Starts a job in the background, and returns its pid. */
  long start(String command) {
    press(command + " & echo 'pi''d'-$!\n");
    await(command, () -> PID.matcher(screen()).find());
    Matcher found = PID.matcher(screen());
    return found.find() ? Long.parseLong(found.group(1)) : -1;
  }

  /** Types a command, and does not wait. */
  void type(String command) {
    press(command + "\n");
  }

  /** Presses Ctrl-C. */
  void interrupt() {
    press(Character.toString(CTRL_C));
  }

  private void press(String text) {
    try {
      keys.write(text.getBytes(StandardCharsets.UTF_8));
      keys.flush();
    } catch (IOException e) {
      throw new UncheckedIOException("the shell has exited: " + screen(), e);
    }
  }

  private void await(String command, BooleanSupplier condition) {
    if (!Await.until(PATIENCE, condition)) {
      throw new AssertionError(command + " has not ended in\n" + screen());
    }
  }

  /** Returns what the terminal has shown until now. */
  String screen() {
    try {
      return Files.readString(output).replace("\r", "");
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Ends the shell by the end of its input; jobs in the background live on. */
  @Override
  public void close() throws IOException, InterruptedException {
    keys.close();
    if (!Await.until(PATIENCE, () -> !terminal.isAlive())) {
      terminal.destroyForcibly().waitFor();
      throw new IOException("the shell did not exit: " + screen());
    }
  }
}
