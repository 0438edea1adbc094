package dev.gpuprocess.examples.cli;

import dev.gpuprocess.LaunchedProcess;
import dev.gpuprocess.SnapshotPlan;
import dev.gpuprocess.examples.slurm.FirstCheck;
import dev.gpuprocess.options.Attribute;
import dev.gpuprocess.options.CriuOptions;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.LaunchOptions;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.ProcessBuilder.Redirect;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/** Starts a command so that it can be dumped. */
@Command(
    name = "launch",
    description = {
      "Start a command in a session of its own, so that it can be dumped.",
      "The exit code is that of the command, also after a dump and a restore, or 128 and the signal."
    })
final class LaunchCommand extends CliCommand {

  /** The interval at which a cancellation is checked, and the wait for output after the end. */
  private static final Duration LOOK = Duration.ofMillis(200);

  private static final int SIGNALLED = 128;

  @Option(names = "--detach", description = "Print the pid and return; the command runs on.")
  private boolean detach;

  @Option(
      names = "--isolated",
      description = "Give it namespaces of its own, so that pids are free.")
  private boolean isolated;

  @Option(
      names = "--drop-inherited-gpu",
      negatable = true,
      defaultValue = "true",
      fallbackValue = "true",
      description = "Make forked workers release the GPU descriptors that they inherit (default).")
  private boolean dropInheritedGpu;

  @Option(names = "--directory", paramLabel = "DIR", description = "The working directory.")
  private @Nullable Path directory;

  @Option(names = "--output", paramLabel = "FILE", description = "Append its output to this file.")
  private @Nullable Path outputFile;

  @Option(
      names = "--images",
      paramLabel = "STORE",
      description = {
        "Make the snapshots that the command requests, in this directory.",
        "Not with --detach: this program makes them, until the command ends."
      })
  private @Nullable Path images;

  @Option(
      names = "--grace",
      paramLabel = "TIME",
      description = "After Ctrl-C or --timeout: time from SIGTERM to SIGKILL; 10s by default.")
  private Duration grace = Duration.ofSeconds(10);

  @Mixin private final CriuArguments criu = new CriuArguments();

  @Mixin private final LossArguments losses = new LossArguments();

  @Override
  Attribute[] allowedLosses() {
    return losses.attributes();
  }

  @Override
  CriuOptions criu() {
    return criu.options();
  }

  @Parameters(
      paramLabel = "COMMAND",
      arity = "1..*",
      description = "The command, after --. Its standard input is empty.")
  private List<String> command = List.of();

  @Override
  int run(Session session) {
    if (detach && images != null) {
      throw new CommandException(
          ExitCode.USAGE,
          "OPTION",
          "--images cannot be used with --detach: the snapshots that the command requests are made by this program, so run it in the background without --detach");
    }
    LaunchOptions options = CommandException.valid(() -> builder().build());
    LaunchedProcess launched =
        images == null
            ? session.machine().launch(options)
            : session
                .machine()
                .launch(options, SnapshotPlan.into(session.machine().store(images)).build());
    Map<String, @Nullable Object> value = new LinkedHashMap<>();
    value.put("pid", launched.identity().pid());
    if (detach) {
      session.output().result(value, String.valueOf(launched.identity().pid()));
      return ExitCode.DONE.code();
    }
    if (images != null) {
      FirstCheck.begin(
          session.machine(),
          launched,
          images.resolve("image"),
          DumpOptions.ofDefaults(),
          session::note);
    }
    Optional<Copier> output = copier(launched.output(), FileDescriptor.out);
    Optional<Copier> error = copier(launched.error(), FileDescriptor.err);
    Optional<LaunchedProcess.Exit> exit = awaitExit(session, launched);
    output.ifPresent(copier -> copier.finish(session));
    error.ifPresent(copier -> copier.finish(session));
    return exit.map(LaunchCommand::code).orElse(ExitCode.PROBLEM.code());
  }

  private LaunchOptions.Builder builder() {
    LaunchOptions.Builder options =
        LaunchOptions.builder(
                command.get(0), command.subList(1, command.size()).toArray(String[]::new))
            .survivesExit(detach)
            .isolated(isolated)
            .dropInheritedGpu(dropInheritedGpu);
    if (directory != null) {
      options.directory(directory);
    }
    if (outputFile != null) {
      options.output(Redirect.appendTo(outputFile.toFile()));
    } else if (!detach) {
      options.output(Redirect.PIPE).error(Redirect.PIPE);
    } else {
      options.output(Redirect.DISCARD);
    }
    return options;
  }

  private Optional<LaunchedProcess.Exit> awaitExit(Session session, LaunchedProcess launched) {
    while (true) {
      Optional<LaunchedProcess.Exit> exit = launched.awaitExit(LOOK);
      if (exit.isPresent()) {
        return exit;
      }
      if (session.isCancelled()) {
        return launched.end(grace);
      }
    }
  }

  private static int code(LaunchedProcess.Exit exit) {
    if (exit.signal().isPresent()) {
      return SIGNALLED + exit.signal().getAsInt();
    }
    return exit.code().orElse(ExitCode.PROBLEM.code());
  }

  private static Optional<Copier> copier(Optional<InputStream> from, FileDescriptor to) {
    Optional<Copier> copier = from.map(in -> new Copier(in, new FileOutputStream(to)));
    copier.ifPresent(Thread::start);
    return copier;
  }

  /** Copies what the command prints. If that fails, the command notices that its reader is gone. */
  private static final class Copier extends Thread {

    private static final int MOST_BYTES = 64 << 10;

    private final InputStream in;
    private final OutputStream out;
    private volatile boolean reading;

    Copier(InputStream in, OutputStream out) {
      super("gpuprocess output");
      this.in = in;
      this.out = out;
      setDaemon(true);
    }

    @Override
    public void run() {
      byte[] bytes = new byte[MOST_BYTES];
      try (in) {
        for (int count = read(bytes); count >= 0; count = read(bytes)) {
          out.write(bytes, 0, count);
        }
      } catch (IOException e) {
        return; // the reader is gone, or the pipe was closed with the process
      }
    }

    private int read(byte[] bytes) throws IOException {
      reading = true;
      int count = in.read(bytes);
      reading = false;
      return count;
    }

    /** A descendant of the command may hold the pipe open, and print nothing more. */
    private boolean isCopying() {
      try {
        return isAlive() && (!reading || in.available() > 0);
      } catch (IOException e) {
        return false; // the pipe was closed
      }
    }

    /**
     * Waits until all that the command has printed is copied; after a cancellation only briefly.
     */
    void finish(Session session) {
      boolean interrupted = Thread.interrupted();
      do {
        try {
          join(LOOK.toMillis());
        } catch (InterruptedException e) {
          interrupted = true;
        }
      } while (isCopying() && !session.isCancelled());
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }
}
