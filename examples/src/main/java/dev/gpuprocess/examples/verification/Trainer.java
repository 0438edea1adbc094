package dev.gpuprocess.examples.verification;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.LaunchedProcess;
import dev.gpuprocess.examples.demo.Await;
import dev.gpuprocess.examples.demo.Scratch;
import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.options.LaunchOptions;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.ProcessBuilder.Redirect;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Predicate;
import java.util.stream.Stream;

/**
 * A run of a {@link TrainingProgram}. The object remains valid when CRIU has restored the
 * processes; closing it ends all of them.
 */
final class Trainer implements AutoCloseable {

  /** The way in which data loaders start; without loaders the trainer makes its data itself. */
  enum Loaders {
    NONE,
    SPAWN,
    FORK
  }

  private static final Duration PATIENCE = Duration.ofMinutes(3);
  private static final long PAUSE_NANOS = TimeUnit.MILLISECONDS.toNanos(5);

  /** The shell prints the pid, and stays as parent to reap the process; not every init does. */
  private static final String KEEPER = "setsid \"$@\" >/dev/null & echo $!; exec >/dev/null; wait";

  private static final String CHECK_PYTORCH =
      "import torch, sys; sys.exit(None if torch.cuda.is_available() else 'PyTorch sees no GPU')";

  private final Path losses;
  private final Path errors;
  private ProcessIdentity identity;

  private Trainer(ProcessIdentity identity, Path losses, Path errors) {
    this.identity = identity;
    this.losses = losses;
    this.errors = errors;
  }

  /** Returns the reason why no training can run here; empty if it can. */
  static Optional<String> whyMissing() {
    try {
      ProgramRun.Ended check = ProgramRun.of("python3", "-c", CHECK_PYTORCH).run(PATIENCE);
      return check.exit() == 0 ? Optional.empty() : Optional.of(check.lastLine());
    } catch (UncheckedIOException e) {
      return Optional.of(String.valueOf(e.getMessage())); // not installed, or too slow
    }
  }

  /**
   * Starts a run that is not a child of this JVM.
   *
   * @param scratch the directory for its files
   * @param name the name of this run
   * @param program the program to run
   */
  static Trainer start(Scratch scratch, String name, TrainingProgram program) {
    Path errors = scratch.resolve(name + ".errors");
    List<String> command = new ArrayList<>(List.of("sh", "-c", KEEPER, "sh"));
    try {
      Path losses = prepare(scratch, name, program);
      command.addAll(program.command(scratch.resolve(program.script()), losses));
      // No pipe to this JVM stays open: one that leads outside cannot be restored.
      ProcessBuilder builder =
          new ProcessBuilder(command)
              .redirectInput(new File("/dev/null"))
              .redirectError(errors.toFile());
      builder.environment().putAll(program.environment());
      Process keeper = builder.start();
      try (BufferedReader printed = keeper.inputReader(StandardCharsets.US_ASCII)) {
        int pid = Integer.parseInt(Objects.requireNonNull(printed.readLine(), "no pid"));
        ProcessIdentity identity =
            ProcessIdentity.of(pid)
                .orElseThrow(
                    () -> new IllegalStateException("the trainer ended: " + lastLine(errors)));
        return new Trainer(identity, losses, errors);
      }
    } catch (IOException e) {
      throw new UncheckedIOException("cannot start " + program.script(), e);
    }
  }

  /** Launches a run through the library. */
  static Launched launch(
      GpuCheckpoints checkpoints, Scratch scratch, String name, TrainingProgram program) {
    Path errors = scratch.resolve(name + ".errors");
    try {
      Path losses = prepare(scratch, name, program);
      List<String> command = program.command(scratch.resolve(program.script()), losses);
      LaunchedProcess process =
          checkpoints.launch(
              LaunchOptions.builder(
                      command.get(0), command.subList(1, command.size()).toArray(String[]::new))
                  .environment(program.environment())
                  .error(Redirect.to(errors.toFile()))
                  .build());
      return new Launched(process, new Trainer(process.identity(), losses, errors));
    } catch (IOException e) {
      throw new UncheckedIOException("cannot start " + program.script(), e);
    }
  }

  /** A run that this JVM has launched. */
  record Launched(LaunchedProcess process, Trainer trainer) {}

  /** Makes the files of a run; several runs share a script. */
  private static synchronized Path prepare(Scratch scratch, String name, TrainingProgram program)
      throws IOException {
    Path script = scratch.resolve(program.script());
    if (!Files.exists(script)) {
      try (InputStream in = Trainer.class.getResourceAsStream(program.script())) {
        if (in == null) {
          throw new IOException("this jar was built without " + program.script());
        }
        Files.copy(in, script);
      }
    }
    return Files.createFile(scratch.resolve(name + ".losses"));
  }

  int pid() {
    return identity.pid();
  }

  /** Sets the identity of the restored process. */
  void restoredAs(ProcessIdentity restored) {
    identity = restored;
  }

  /**
   * Returns the complete lines so far; the last line of a finished run begins with {@code done}.
   */
  List<String> lines() {
    try {
      String text = Files.readString(losses);
      return text.substring(0, text.lastIndexOf('\n') + 1).lines().toList();
    } catch (IOException e) {
      throw new UncheckedIOException("cannot read " + losses, e);
    }
  }

  /** Waits until a step is done. */
  void awaitStep(int step) {
    await(lines -> lines.size() >= step, "step " + step);
  }

  /** Waits for the end and returns all lines. */
  List<String> awaitEnd() {
    return await(lines -> !lines.isEmpty() && last(lines).startsWith("done "), "the end");
  }

  private List<String> await(Predicate<List<String>> enough, String what) {
    long deadline = System.nanoTime() + PATIENCE.toNanos();
    while (true) {
      // In this order, so that the last line of a run that has just ended is read.
      boolean alive = identity.isAlive();
      List<String> lines = lines();
      if (enough.test(lines)) {
        return lines;
      }
      if (!alive) {
        throw new IllegalStateException(
            "the trainer ended before " + what + ": " + lastLine(errors));
      }
      if (System.nanoTime() - deadline >= 0) {
        throw new IllegalStateException("the trainer is not at " + what + " after " + PATIENCE);
      }
      LockSupport.parkNanos(PAUSE_NANOS);
    }
  }

  static String last(List<String> lines) {
    return lines.get(lines.size() - 1);
  }

  private static String lastLine(Path file) {
    try {
      List<String> lines =
          new String(Files.readAllBytes(file), StandardCharsets.UTF_8).strip().lines().toList();
      return lines.isEmpty() ? "no output" : last(lines);
    } catch (IOException e) {
      throw new UncheckedIOException("cannot read " + file, e);
    }
  }

  /** Kills the processes of this run, and no other process that may have got a pid of theirs. */
  @Override
  public void close() {
    List<ProcessHandle> tree =
        ProcessHandle.of(identity.pid())
            .filter(handle -> identity.isAlive())
            .map(handle -> Stream.concat(Stream.of(handle), handle.descendants()).toList())
            .orElse(List.of());
    List<ProcessIdentity> ended =
        tree.stream().flatMap(handle -> ProcessIdentity.of(handle.pid()).stream()).toList();
    tree.forEach(ProcessHandle::destroyForcibly);
    if (!Await.until(PATIENCE, () -> ended.stream().noneMatch(ProcessIdentity::isAlive))) {
      throw new IllegalStateException("trainer " + identity.pid() + " was not killed");
    }
  }
}
