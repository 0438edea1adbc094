package dev.gpuprocess.examples.cli;

import dev.gpuprocess.GpuProcess;
import java.util.OptionalLong;
import picocli.CommandLine.Parameters;

/** A command on one process. */
abstract class ProcessCommand extends CliCommand {

  @Parameters(
      index = "0",
      paramLabel = "PID",
      description = "The process; its descendants are included.")
  long pid;

  @Override
  OptionalLong subject() {
    return OptionalLong.of(pid);
  }

  /** Returns the refusal of a command that is not legal in the state of the process. */
  static CommandException wrongState(GpuProcess process, String instead) {
    return new CommandException(
        ExitCode.FIX_AND_RETRY,
        "WRONG_STATE",
        "process %s is %s: %s".formatted(process.pid(), Words.state(process), instead));
  }
}
