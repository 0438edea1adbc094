package dev.gpuprocess.examples.cli;

/** A refusal by the command line itself; its message is all that the user needs. */
final class CommandException extends RuntimeException {

  private static final long serialVersionUID = 1L;

  private final ExitCode exitCode;
  private final String reason;

  CommandException(ExitCode exitCode, String reason, String message) {
    super(message);
    this.exitCode = exitCode;
    this.reason = reason;
  }

  ExitCode exitCode() {
    return exitCode;
  }

  /** Returns the reason, as JSON has it. */
  String reason() {
    return reason;
  }
}
