package dev.gpuprocess.examples.cli;

import picocli.AutoComplete;
import picocli.CommandLine.Command;

/** Prints the script with which a shell completes commands and options. */
@Command(
    name = "completion",
    description = {
      "Print the completion for bash and zsh.",
      "In a shell or its start-up file: source <(gpuprocess completion)"
    })
final class CompletionCommand extends CliCommand {

  @Override
  int run(Session session) {
    session.output().text(AutoComplete.bash(CommandLineTool.NAME, CommandLineTool.commandLine()));
    return ExitCode.DONE.code();
  }
}
