package dev.gpuprocess.examples.cli;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuProcess;
import dev.gpuprocess.options.CriuOptions;
import dev.gpuprocess.options.RestoreOptions;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/** Brings a process back from an image. */
@Command(name = "restore-image", description = "Bring a process back from an image, and resume it.")
final class RestoreImageCommand extends CliCommand {

  @Parameters(index = "0", paramLabel = "DIR", description = "The image.")
  private Path directory = Path.of("");

  @Option(
      names = "--newest",
      description = "DIR is a directory of images; the newest one that can be used is taken.")
  private boolean newest;

  @Option(names = "--suspended", description = "Leave the process checkpointed, off the GPU.")
  private boolean suspended;

  @Option(
      names = "--expect-label",
      paramLabel = "TEXT",
      description = "Refuse an image with another label.")
  private @Nullable String label;

  @Option(
      names = "--terminal-log",
      paramLabel = "FILE",
      description =
          "Give a job of a terminal a new one and append its output to this file, instead of the"
              + " terminal of this shell.")
  private @Nullable Path terminalLog;

  @Option(
      names = "--skip-machine-check",
      description = "Restore although the image was made on a different machine.")
  private boolean skipMachineCheck;

  @Mixin private final ResumeArguments resume = new ResumeArguments();

  @Mixin private final CriuArguments criu = new CriuArguments();

  @Override
  CriuOptions criu() {
    return criu.options();
  }

  @Override
  int run(Session session) {
    CheckpointedProcess restored = restore(session);
    GpuProcess process = suspended ? restored : restored.resume(resume.options(session));
    Map<String, @Nullable Object> value = new LinkedHashMap<>();
    value.put("pid", process.pid());
    value.put("state", Words.state(process));
    value.put("seconds", session.seconds());
    value.put("steps", Words.steps(process.steps()));
    session
        .output()
        .result(
            value,
            "process %s: restored, %s, %s"
                .formatted(process.pid(), Words.state(process), Words.seconds(session.seconds())));
    return ExitCode.DONE.code();
  }

  private CheckpointedProcess restore(Session session) {
    return newest
        ? session
            .machine()
            .store(directory)
            .restoreNewest(options(session), skipped -> session.note("skipped " + skipped))
        : session.machine().open(directory).restore(options(session));
  }

  private RestoreOptions options(Session session) {
    return CommandException.valid(() -> builder(session).build());
  }

  private RestoreOptions.Builder builder(Session session) {
    RestoreOptions.Builder options =
        RestoreOptions.builder()
            .cancellation(session.cancellation())
            .callersTerminal(terminalLog == null)
            .skipMachineCheck(skipMachineCheck);
    if (terminalLog != null) {
      options.terminalLog(terminalLog);
    }
    if (label != null) {
      options.expectLabel(label);
    }
    return options;
  }
}
