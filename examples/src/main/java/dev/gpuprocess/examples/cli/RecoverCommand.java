package dev.gpuprocess.examples.cli;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.Recovered;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.options.ResumeOptions;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** Mends what controllers left that were killed. */
@Command(
    name = "recover",
    description = "Mend the processes that controllers left half way when they were killed.")
final class RecoverCommand extends CliCommand {

  @Option(names = "--resume", description = "Also resume the processes that are suspended.")
  private boolean resume;

  @Override
  int run(Session session) {
    List<Map<String, @Nullable Object>> values = new ArrayList<>();
    ExitCode code = ExitCode.DONE;
    // The members of a process have the same object, which is resumed once.
    Map<CheckpointedProcess, Optional<GpuCheckpointException>> failures = new HashMap<>();
    for (Recovered each : session.machine().recover()) {
      Map<String, @Nullable Object> value = new LinkedHashMap<>();
      value.put("pid", each.process().pid());
      value.put("outcome", each.outcome().name().toLowerCase(Locale.ROOT));
      CheckpointedProcess suspended = each.suspended();
      if (resume && suspended != null) {
        Optional<GpuCheckpointException> failure =
            failures.computeIfAbsent(suspended, process -> failure(session, process));
        if (failure.isPresent() && code == ExitCode.DONE) {
          code = ExitCode.of(failure.get());
        }
        value.put("resumed", failure.isEmpty());
        value.put("failure", failure.map(Throwable::getMessage).orElse(null));
      } else {
        value.put("resumed", false);
        value.put("failure", null);
      }
      values.add(value);
    }
    session.output().table(values, "pid", "outcome", "resumed", "failure");
    return code.code();
  }

  /** Resumes a process, and returns why it is not resumed. */
  private static Optional<GpuCheckpointException> failure(
      Session session, CheckpointedProcess suspended) {
    ResumeOptions options = ResumeOptions.builder().cancellation(session.cancellation()).build();
    try {
      RunningProcess running = suspended.resume(options);
      session.note(running + " was resumed");
      return Optional.empty();
    } catch (GpuCheckpointException e) {
      return Optional.of(e);
    }
  }
}
