package dev.gpuprocess.examples.cli;

import dev.gpuprocess.options.Attribute;
import dev.gpuprocess.options.CriuOptions;
import java.time.Duration;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** A command, with the options that all commands have. */
@Command(mixinStandardHelpOptions = true)
abstract class CliCommand {

  @Option(names = "--json", description = "Print JSON instead of a table.")
  boolean json;

  @Option(
      names = "--timeout",
      paramLabel = "TIME",
      description = "Cancel the command after this time, such as 500ms, 30s, 10m or 1h.")
  @Nullable Duration timeout;

  /**
   * Runs the command.
   *
   * @param session the machine, the output, and what ends the command early
   * @return the exit code
   */
  abstract int run(Session session);

  /** Returns the options of CRIU for all dumps and restores of the command. */
  CriuOptions criu() {
    return CriuOptions.ofDefaults();
  }

  /** Returns the attributes that the images of the command may lack. */
  Attribute[] allowedLosses() {
    return new Attribute[0];
  }

  /** Returns whether the GPU memory that the command takes off a GPU goes into save files. */
  boolean usesSaveFiles() {
    return true;
  }

  /** Returns whether the command may checkpoint a process whose polls cannot be made to wait. */
  boolean allowsPolls() {
    return false;
  }

  /** Returns the process whose state is printed when the command fails. */
  OptionalLong subject() {
    return OptionalLong.empty();
  }
}
