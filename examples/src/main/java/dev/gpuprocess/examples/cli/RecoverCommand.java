package dev.gpuprocess.examples.cli;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.Recovered;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.options.ResumeOptions;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
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
    Set<CheckpointedProcess> resumed = new HashSet<>();
    ResumeOptions options = ResumeOptions.builder().cancellation(session.cancellation()).build();
    for (Recovered each : session.machine().recover()) {
      CheckpointedProcess suspended = each.suspended();
      if (resume && suspended != null && resumed.add(suspended)) {
        RunningProcess running = suspended.resume(options);
        session.note(running + " was resumed");
      }
      Map<String, @Nullable Object> value = new LinkedHashMap<>();
      value.put("pid", each.process().pid());
      value.put("outcome", each.outcome().name().toLowerCase(Locale.ROOT));
      value.put("resumed", resume && suspended != null);
      values.add(value);
    }
    session.output().table(values, "pid", "outcome", "resumed");
    return ExitCode.DONE.code();
  }
}
