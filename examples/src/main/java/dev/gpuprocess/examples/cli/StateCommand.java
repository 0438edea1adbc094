package dev.gpuprocess.examples.cli;

import dev.gpuprocess.GpuProcess;
import dev.gpuprocess.report.ProcessMember;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** Prints the state of a process. */
@Command(
    name = "state",
    description = "Print the state: running, locked, checkpointed, failed or poisoned.")
final class StateCommand extends ProcessCommand {

  @Option(names = "--members", description = "List each process of the tree that uses CUDA.")
  private boolean members;

  @Override
  int run(Session session) {
    GpuProcess process = session.inspect(pid);
    if (members) {
      session
          .output()
          .table(
              process.members().stream().map(StateCommand::value).toList(),
              "pid",
              "state",
              "gpuBytes",
              "command");
      return ExitCode.DONE.code();
    }
    Map<String, @Nullable Object> value = new LinkedHashMap<>();
    value.put("pid", process.pid());
    value.put("state", Words.state(process));
    value.put("label", process.label().orElse(null));
    session.output().result(value, Words.state(process));
    return ExitCode.DONE.code();
  }

  private static Map<String, @Nullable Object> value(ProcessMember member) {
    Map<String, @Nullable Object> value = new LinkedHashMap<>();
    value.put("pid", member.pid());
    value.put("state", Words.state(member.state()));
    value.put("gpuBytes", Words.gpuBytes(member.gpuBytes()));
    value.put("command", member.command());
    return value;
  }
}
