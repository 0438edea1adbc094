package dev.gpuprocess.examples.cli;

/** A refusal by the command line itself; its message is all that the user needs. */
final class CommandException extends RuntimeException {

  private static final long serialVersionUID = 1L;

  private final ExitCode exitCode;

  CommandException(ExitCode exitCode, String message) {
    super(message);
    this.exitCode = exitCode;
  }

  ExitCode exitCode() {
    return exitCode;
  }
}
