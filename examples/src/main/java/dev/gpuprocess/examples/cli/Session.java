package dev.gpuprocess.examples.cli;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.GpuProcess;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.CriuOptions;
import dev.gpuprocess.options.HostMemory;
import java.io.PrintStream;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** One run of a command: what it works with, and how it ends. */
final class Session {

  /** Longer than a command can last. */
  private static final Duration UNLIMITED = Duration.ofDays(365);

  private final Supplier<GpuCheckpoints> source;
  private final Cancellation cancellation;
  private final CliCommand command;
  private final PrintStream err;
  private final Output output;
  private final Progress progress;
  private final long began = System.nanoTime();
  private volatile boolean timedOut;
  private CriuOptions criu = CriuOptions.ofDefaults();
  private @Nullable GpuCheckpoints machine;

  Session(
      Supplier<GpuCheckpoints> source,
      Cancellation cancellation,
      CliCommand command,
      PrintStream out,
      PrintStream err) {
    this.source = source;
    this.cancellation = cancellation;
    this.command = command;
    this.err = err;
    this.output = new Output(out, command.json);
    this.progress = new Progress(err, !command.json && Progress.isTerminal());
  }

  /** Runs the command and returns its exit code; a failure is printed. */
  int run() {
    Thread worker = Thread.currentThread();
    Thread timer = command.timeout == null ? null : timer(worker, command.timeout);
    try (progress) {
      criu = command.criu();
      return command.run(this);
    } catch (RuntimeException e) {
      progress.close();
      return failed(e);
    } finally {
      if (timer != null) {
        timer.interrupt();
      }
    }
  }

  private Thread timer(Thread worker, Duration limit) {
    Thread timer =
        new Thread(
            () -> {
              try {
                TimeUnit.NANOSECONDS.sleep(limit.toNanos());
              } catch (InterruptedException done) {
                return;
              }
              timedOut = true;
              cancellation.cancel();
              worker.interrupt();
            },
            "gpuprocess timeout");
    timer.setDaemon(true);
    timer.start();
    return timer;
  }

  private int failed(RuntimeException failure) {
    // Set by a cancellation; it would end the look at the process too.
    boolean interrupted = Thread.interrupted();
    ExitCode code = ExitCode.of(failure);
    String message =
        (timedOut && code == ExitCode.RETRY_LATER ? "the time of --timeout has passed: " : "")
            + OptionForm.of(
                failure.getMessage() == null ? failure.toString() : failure.getMessage());
    Map<String, @Nullable Object> value = new LinkedHashMap<>();
    value.put("group", code.name());
    value.put("exitCode", code.code());
    value.put("reason", ExitCode.reason(failure));
    value.put("message", message);
    err.println("gpuprocess: " + Output.printable(message));
    if (code == ExitCode.PROBLEM) {
      failure.printStackTrace(err);
    }
    if (command.subject().isPresent()) {
      long pid = command.subject().getAsLong();
      String state = stateNow(pid);
      value.put("pid", pid);
      value.put("state", state);
      if (interrupted || timedOut || cancellation.isCancelled()) {
        err.println("gpuprocess: process %s was left as: %s".formatted(pid, state));
      }
    }
    output.failure(value);
    return code.code();
  }

  private String stateNow(long pid) {
    try {
      return Words.state(machine().inspect(pid));
    } catch (GpuCheckpointException e) {
      return "unknown (" + e.getMessage() + ")";
    }
  }

  /** Returns the drivers and settings. */
  GpuCheckpoints machine() {
    GpuCheckpoints known = machine;
    if (known == null) {
      GpuCheckpoints standard = source.get();
      known =
          standard.toBuilder()
              .criuOptions(criu)
              .allowLoss(command.allowedLosses())
              .allowPolls(command.allowsPolls())
              .build();
      if (!command.usesSaveFiles()) {
        known = known.toBuilder().hostMemory(HostMemory.none()).build();
      }
      if (progress.isShown()) {
        known = known.toBuilder().listener(progress).build();
      }
      machine = known;
    }
    return known;
  }

  GpuProcess inspect(long pid) {
    return machine().inspect(pid);
  }

  Output output() {
    return output;
  }

  Progress progress() {
    return progress;
  }

  Cancellation cancellation() {
    return cancellation;
  }

  boolean isCancelled() {
    return cancellation.isCancelled();
  }

  /** Prints a line for people that is not a result, such as a snapshot that was skipped. */
  void note(String text) {
    err.println("gpuprocess: " + Output.printable(OptionForm.of(text)));
  }

  /** Returns what is left of {@code --timeout}. */
  Duration remaining() {
    Duration limit = command.timeout == null ? UNLIMITED : command.timeout;
    Duration left = limit.minusNanos(System.nanoTime() - began);
    return left.isNegative() || left.isZero() ? Duration.ofMillis(1) : left;
  }

  /** Returns the seconds since the command began. */
  double seconds() {
    return (System.nanoTime() - began) / 1e9;
  }
}
