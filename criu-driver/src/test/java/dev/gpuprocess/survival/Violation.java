package dev.gpuprocess.survival;

import java.util.Locale;
import java.util.Optional;

/**
 * Something that must not be. A controller prints it as a line, and its parent reads it.
 *
 * @param text one line
 */
record Violation(Kind kind, String text) {

  /** The kinds of violations, the worst first. */
  enum Kind {
    /** A process is gone, or not what it was. */
    LOST,
    /** A process does not run, and no journal says that it should. */
    LEFT_BEHIND,
    /** Any other wrong result of a verb. */
    WRONG,
    /** A resource was not released. */
    LEAKED
  }

  private static final String MARK = "violation ";

  Violation {
    text = text.replace('\n', ' ');
  }

  String line() {
    return MARK + kind + " " + text;
  }

  /** Parses a line; empty when it is something else. */
  static Optional<Violation> read(String line) {
    if (!line.startsWith(MARK)) {
      return Optional.empty();
    }
    String[] words = line.substring(MARK.length()).split(" ", 2);
    return Optional.of(new Violation(Kind.valueOf(words[0]), words[1]));
  }

  @Override
  public String toString() {
    return kind.name().toLowerCase(Locale.ROOT).replace('_', ' ') + ": " + text;
  }
}
