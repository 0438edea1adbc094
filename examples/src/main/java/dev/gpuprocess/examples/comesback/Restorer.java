package dev.gpuprocess.examples.comesback;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.LaunchedProcess;
import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.examples.cli.Main;
import dev.gpuprocess.examples.demo.Await;
import dev.gpuprocess.fixtures.AttributeProcess;
import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.fixtures.SimulatedDriver;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** Restores images in each of the ways in which users do. */
final class Restorer implements AutoCloseable {

  private static final Duration PATIENCE = Duration.ofMinutes(3);
  private static final Pattern RESTORED = Pattern.compile("process (\\d+): restored");

  private final GpuCheckpoints checkpoints;
  private final SimulatedDriver machine;
  private @Nullable Process other;
  private @Nullable Process terminal;
  private @Nullable LaunchedProcess launched;

  Restorer(GpuCheckpoints checkpoints, SimulatedDriver machine) {
    this.checkpoints = checkpoints;
    this.machine = machine;
  }

  /** A restore that failed; the message is that of the library. */
  static final class FailedException extends Exception {
    private static final long serialVersionUID = 1;

    FailedException(String message) {
      super(message);
    }
  }

  /**
   * Restores and resumes the process of an image.
   *
   * @param way how
   * @param image its directory
   * @param scratch an empty directory
   * @return the pid of the root
   */
  long restore(Combination.Way way, Path image, Path scratch)
      throws FailedException, IOException, InterruptedException {
    return switch (way) {
      case SAME_JVM -> checkpoints.open(image).resume().pid();
      case LAUNCH -> launch(image);
      case OTHER_JVM -> restoreInOtherJvm(image);
      case COMMAND -> restoreByCommand(image);
      case COMMAND_IN_TERMINAL -> restoreInTerminal(image, scratch);
    };
  }

  private long launch(Path image) {
    LaunchedProcess process = checkpoints.open(image).launch();
    launched = process;
    return process.process().pid();
  }

  private long restoreInOtherJvm(Path image) throws IOException, FailedException {
    Process jvm = other;
    if (jvm == null) {
      jvm =
          new ProcessBuilder(
                  TestJvm.command(
                      RestoringJvm.class,
                      machine.directory().toString(),
                      machine.stateDirectory().toString()))
              .redirectError(ProcessBuilder.Redirect.INHERIT)
              .start();
      other = jvm;
    }
    PrintStream requests = new PrintStream(jvm.getOutputStream(), true, StandardCharsets.UTF_8);
    requests.println(image);
    BufferedReader answers = jvm.inputReader(StandardCharsets.UTF_8);
    String line = answers.readLine();
    if (line == null) {
      throw new FailedException("the other JVM has ended");
    }
    if (!line.startsWith(RestoringJvm.DONE)) {
      throw new FailedException(line);
    }
    return Long.parseLong(line.substring(RestoringJvm.DONE.length()));
  }

  private Map<String, String> environment() {
    return Map.of(
        "GPUPROCESS_DRIVER_DIR", machine.directory().toString(),
        "GPUPROCESS_STATE_DIR", machine.stateDirectory().toString());
  }

  private static List<String> command(Path image) {
    return TestJvm.command(Main.class, "restore-image", image.toString());
  }

  private long restoreByCommand(Path image) throws FailedException {
    ProgramRun.Ended ended = ProgramRun.of(command(image)).with(environment()).run(PATIENCE);
    return restoredPid(ended.exit(), ended.printed());
  }

  private long restoreInTerminal(Path image, Path scratch) throws IOException, FailedException {
    Process keeper = AttributeProcess.inTerminal(scratch, command(image), environment());
    terminal = keeper;
    Path exit = scratch.resolve("exit");
    if (!Await.until(PATIENCE, () -> Files.exists(exit) || !keeper.isAlive())) {
      throw new FailedException("the command does not end");
    }
    Path output = scratch.resolve("output");
    // The terminal hands the output on a little later.
    boolean unused =
        Await.until(Duration.ofSeconds(1), () -> RESTORED.matcher(read(output)).find());
    return restoredPid(Integer.parseInt(read(exit).strip()), read(output));
  }

  private static String read(Path file) {
    try {
      return Files.exists(file) ? Files.readString(file) : "";
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static long restoredPid(int code, String output) throws FailedException {
    Matcher matcher = RESTORED.matcher(output);
    if (code != 0 || !matcher.find()) {
      throw new FailedException("exit code " + code + ": " + output.strip());
    }
    return Long.parseLong(matcher.group(1));
  }

  /** Ends what belongs to the last restore, such as its terminal. */
  void forget() {
    Process keeper = terminal;
    if (keeper != null) {
      keeper.descendants().forEach(ProcessHandle::destroyForcibly);
      keeper.destroy();
    }
    terminal = null;
    LaunchedProcess process = launched;
    if (process != null) {
      process.end(Duration.ZERO);
    }
    launched = null;
  }

  @Override
  public void close() {
    forget();
    Process jvm = other;
    if (jvm != null) {
      TestJvm.end(jvm);
    }
  }
}
