package dev.gpuprocess.criu;

import dev.gpuprocess.error.CriuTooOldException;
import dev.gpuprocess.error.CriuUnavailableException;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.spi.CriuVersion;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** Asks a command once whether it leads to a CRIU that is fit for this kernel, and remembers it. */
final class CliFinder {

  private static final Duration LIMIT = Duration.ofSeconds(30);
  private static final Pattern VERSION =
      Pattern.compile("^Version: (\\d+)\\.(\\d+)(?:\\.(\\d+))?", Pattern.MULTILINE);
  private static final String GIT = "GitID: ";

  private final List<String> command;
  private volatile @Nullable CriuBinary found;

  CliFinder(List<String> command) {
    if (command.isEmpty() || command.get(0).isBlank()) {
      throw new IllegalArgumentException("the command that leads to CRIU is empty");
    }
    this.command = List.copyOf(command);
  }

  CliLink link() {
    return new CliLink(command);
  }

  /**
   * Finds CRIU.
   *
   * @param operation what it is needed for
   */
  CriuBinary find(String operation) {
    CriuBinary known = found;
    if (known != null) {
      return known;
    }
    CriuBinary binary = ask(operation);
    String kernel = CriuBinary.kernel();
    Optional<String> unfit = binary.unfitFor(kernel);
    if (unfit.isPresent()) {
      throw new CriuTooOldException(
          "'%s' is CRIU %s, but %s"
              .formatted(String.join(" ", command), binary.version(), unfit.get()),
          Failure.of(operation, 0));
    }
    found = binary;
    return binary;
  }

  private CriuBinary ask(String operation) {
    Outcome outcome;
    try {
      outcome = link().version(Supervision.plain(Deadline.after(LIMIT)));
    } catch (IOException e) {
      throw unavailable(operation, String.valueOf(e.getMessage()), e);
    }
    Matcher version = VERSION.matcher(outcome.output());
    if (!outcome.success() || !version.find()) {
      GivenUpException givenUp = outcome.givenUp();
      String output = outcome.output().strip();
      throw unavailable(
          operation,
          (givenUp == null ? outcome.exit().toString() : givenUp.reason())
              + (output.isEmpty() ? "" : ", " + output),
          givenUp);
    }
    String sublevel = version.group(3);
    return new CriuBinary(
        Path.of(command.get(0)),
        new CriuVersion(
            Integer.parseInt(version.group(1)),
            Integer.parseInt(version.group(2)),
            sublevel == null ? 0 : Integer.parseInt(sublevel)),
        outcome.output().contains(GIT));
  }

  private CriuUnavailableException unavailable(
      String operation, String why, @Nullable Throwable cause) {
    return new CriuUnavailableException(
        "'%s --version' does not tell a version of CRIU: %s; try it in a shell of this user"
            .formatted(String.join(" ", command), why),
        Failure.of(operation, 0),
        cause);
  }
}
