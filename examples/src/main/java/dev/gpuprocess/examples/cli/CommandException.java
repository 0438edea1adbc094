package dev.gpuprocess.examples.cli;

import java.util.function.Supplier;

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

  /** Returns what is made of arguments; one that is refused is an invalid argument. */
  static <T> T valid(Supplier<T> made) {
    try {
      return made.get();
    } catch (IllegalArgumentException e) {
      throw new CommandException(ExitCode.USAGE, "OPTION", String.valueOf(e.getMessage()));
    }
  }

  ExitCode exitCode() {
    return exitCode;
  }

  /** Returns the reason, as JSON has it. */
  String reason() {
    return reason;
  }
}
