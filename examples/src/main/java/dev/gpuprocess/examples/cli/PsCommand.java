package dev.gpuprocess.examples.cli;

import dev.gpuprocess.report.ListedProcess;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;

/** Lists the processes that use CUDA. */
@Command(name = "ps", description = "List the processes that use CUDA, with state and GPU memory.")
final class PsCommand extends CliCommand {

  @Override
  int run(Session session) {
    session
        .output()
        .table(
            session.machine().processes().stream().map(PsCommand::value).toList(),
            "pid",
            "owner",
            "state",
            "gpuBytes",
            "label",
            "suspendedSince",
            "command");
    return ExitCode.DONE.code();
  }

  private static Map<String, @Nullable Object> value(ListedProcess process) {
    Map<String, @Nullable Object> value = new LinkedHashMap<>();
    value.put("pid", process.pid());
    value.put("owner", process.owner());
    value.put(
        "state",
        process.suspended() != null && process.suspended().poisoned()
            ? "poisoned"
            : Words.state(process.state()));
    value.put("gpuBytes", Words.gpuBytes(process.gpuBytes()));
    value.put("gpuBytesKnown", process.gpuBytesKnown());
    value.put("command", process.command());
    value.put("note", process.note());
    value.put("label", process.suspended() == null ? null : process.suspended().label());
    value.put("suspendedSince", process.suspended() == null ? null : process.suspended().since());
    return value;
  }
}
