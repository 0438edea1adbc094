package dev.gpuprocess.examples.verification;

import dev.gpuprocess.examples.demo.Scratch;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Predicate;

/**
 * A PyTorch training run ({@code trainer.py}) that writes a line {@code step loss} for each step.
 * It stays the same run when CRIU has restored it.
 */
final class Trainer implements AutoCloseable {

  /** How the processes that make its data start; it makes them itself with none. */
  enum Loaders {
    NONE,
    SPAWN,
    FORK
  }

  private static final Duration PATIENCE = Duration.ofMinutes(3);
  private static final long PAUSE_NANOS = TimeUnit.MILLISECONDS.toNanos(5);
  private static final String LOOK =
      "import torch, sys; sys.exit(None if torch.cuda.is_available() else 'PyTorch sees no GPU')";

  private final Path losses;
  private final Path errors;
  private ProcessIdentity identity;

  private Trainer(ProcessIdentity identity, Path losses, Path errors) {
    this.identity = identity;
    this.losses = losses;
    this.errors = errors;
  }

  /** Why there can be no training here; empty where there can. */
  static Optional<String> whyMissing(Scratch scratch) {
    Path errors = scratch.resolve("look.errors");
    try {
      Process look = builder(errors, List.of("python3", "-c", LOOK)).start();
      if (!look.waitFor(PATIENCE.toSeconds(), TimeUnit.SECONDS)) {
        look.destroyForcibly();
        return Optional.of("python3 does not load PyTorch within " + PATIENCE.toSeconds() + " s");
      }
      return look.exitValue() == 0 ? Optional.empty() : Optional.of(lastLine(errors));
    } catch (IOException e) {
      return Optional.of("there is no python3");
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException("interrupted while looking for PyTorch", e);
    }
  }

  /**
   * Starts a run.
   *
   * @param scratch where its files are
   * @param name of this run
   * @param steps how many
   * @param mebibytes of GPU memory to hold besides the model
   * @param loaders who makes its data
   */
  static Trainer start(Scratch scratch, String name, int steps, int mebibytes, Loaders loaders) {
    Path script = scratch.resolve("trainer.py");
    Path losses = scratch.resolve(name + ".losses");
    Path errors = scratch.resolve(name + ".errors");
    try {
      writeScript(script);
      Files.createFile(losses);
      List<String> command =
          List.of(
              "python3",
              script.toString(),
              losses.toString(),
              Integer.toString(steps),
              Integer.toString(mebibytes),
              loaders.name().toLowerCase(Locale.ROOT));
      Process process = builder(errors, command).start();
      ProcessIdentity identity =
          ProcessIdentity.of(process.pid())
              .orElseThrow(() -> new IllegalStateException("the trainer ended at once"));
      return new Trainer(identity, losses, errors);
    } catch (IOException e) {
      throw new UncheckedIOException("cannot start the trainer", e);
    }
  }

  /** Nothing of this JVM stays open in it: a pipe that leads outside could not be restored. */
  private static ProcessBuilder builder(Path errors, List<String> command) {
    return new ProcessBuilder(command)
        .redirectInput(new File("/dev/null"))
        .redirectOutput(ProcessBuilder.Redirect.DISCARD)
        .redirectError(errors.toFile());
  }

  private static void writeScript(Path script) throws IOException {
    if (Files.exists(script)) {
      return;
    }
    try (InputStream in = Trainer.class.getResourceAsStream("trainer.py")) {
      if (in == null) {
        throw new IOException("this jar was built without trainer.py");
      }
      Files.copy(in, script);
    }
  }

  int pid() {
    return identity.pid();
  }

  /** Says that CRIU restored it: the pid is the same, the process is another. */
  void restoredAs(ProcessIdentity restored) {
    identity = restored;
  }

  /** The complete lines up to now; the last of a finished run begins with {@code done}. */
  List<String> lines() {
    try {
      String text = Files.readString(losses);
      return text.substring(0, text.lastIndexOf('\n') + 1).lines().toList();
    } catch (IOException e) {
      throw new UncheckedIOException("cannot read " + losses, e);
    }
  }

  /** Waits until so many steps are done. */
  void awaitStep(int step) {
    await(lines -> lines.size() >= step, "step " + step);
  }

  /** Waits for the end; gives all lines. */
  List<String> awaitEnd() {
    return await(lines -> !lines.isEmpty() && last(lines).startsWith("done "), "the end");
  }

  private List<String> await(Predicate<List<String>> enough, String what) {
    long deadline = System.nanoTime() + PATIENCE.toNanos();
    while (true) {
      // Asked in this order, so that the last line of a run that has just ended is seen.
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
      return lines.isEmpty() ? "it said nothing" : last(lines);
    } catch (IOException e) {
      throw new UncheckedIOException("cannot read " + file, e);
    }
  }

  /** Ends this very process, and no other that may have got its pid. */
  @Override
  public void close() {
    ProcessHandle.of(identity.pid())
        .filter(handle -> identity.isAlive())
        .ifPresent(ProcessHandle::destroyForcibly);
    long deadline = System.nanoTime() + PATIENCE.toNanos();
    while (identity.isAlive()) {
      if (System.nanoTime() - deadline >= 0) {
        throw new IllegalStateException("trainer " + identity.pid() + " does not die");
      }
      LockSupport.parkNanos(PAUSE_NANOS);
    }
  }
}
