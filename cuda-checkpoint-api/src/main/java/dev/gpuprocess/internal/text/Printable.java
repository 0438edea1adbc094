package dev.gpuprocess.internal.text;

import java.time.Duration;
import java.util.HexFormat;

/**
 * Escapes text from outside for printing: names of processes, files and sockets, lines of logs. A
 * hostile name could otherwise forge lines in a log, send escape sequences to a terminal, or
 * reorder words.
 */
public final class Printable {

  private static final int MAX_CHARACTERS = 16 << 10;
  private static final Duration LONGEST = Duration.ofDays(100_000);

  private Printable() {}

  /**
   * Escapes a text and cuts it to a length that is reasonable in a message.
   *
   * @param text anything
   * @return one line
   */
  public static String of(String text) {
    return of(text, MAX_CHARACTERS);
  }

  /**
   * Escapes a text and cuts it.
   *
   * @param text anything
   * @param most how many of its characters to keep
   * @return one line: control, format and separator characters as Java writes them, such as {@code
   *     \n} or {@code \}{@code u001b}, and {@code ...} instead of the rest
   */
  public static String of(String text, int most) {
    int shown = Math.min(text.length(), most);
    int harmless = 0;
    while (harmless < shown && isHarmless(text.charAt(harmless))) {
      harmless++;
    }
    if (harmless == text.length()) {
      return text;
    }
    StringBuilder printable = new StringBuilder(shown + 16).append(text, 0, harmless);
    for (int at = harmless; at < shown; ) {
      int codePoint = text.codePointAt(at);
      append(printable, codePoint);
      at += Character.charCount(codePoint);
    }
    return shown < text.length() ? printable.append("...").toString() : printable.toString();
  }

  /**
   * Formats a duration.
   *
   * @param duration any
   * @return in the largest units that are exact, such as {@code 1 ms}, {@code 30 s} or {@code 1.5
   *     s}
   */
  public static String of(Duration duration) {
    if (duration.isNegative()) {
      return "-" + of(duration.compareTo(LONGEST.negated()) < 0 ? LONGEST : duration.negated());
    }
    if (duration.compareTo(LONGEST) >= 0) {
      return "indefinitely";
    }
    long nanos = duration.toNanosPart();
    if (duration.toSeconds() == 0) {
      return nanos >= 1_000_000 || nanos == 0
          ? nanos / 1_000_000 + " ms"
          : nanos / 1_000 + " microseconds";
    }
    if (duration.toMinutes() < 2) {
      long tenths = nanos / 100_000_000;
      return duration.toSeconds() + (tenths == 0 ? "" : "." + tenths) + " s";
    }
    if (duration.toHours() < 2) {
      return duration.toMinutes()
          + " min"
          + (duration.toSecondsPart() == 0 ? "" : " " + duration.toSecondsPart() + " s");
    }
    return duration.toDays() < 2 ? duration.toHours() + " h" : duration.toDays() + " days";
  }

  private static boolean isHarmless(char character) {
    return character >= ' ' && character <= '~';
  }

  private static void append(StringBuilder printable, int codePoint) {
    switch (codePoint) {
      case '\n' -> printable.append("\\n");
      case '\r' -> printable.append("\\r");
      case '\t' -> printable.append("\\t");
      default -> {
        if (isPrintable(codePoint)) {
          printable.appendCodePoint(codePoint);
        } else {
          for (char unit : Character.toChars(codePoint)) {
            printable.append("\\u").append(HexFormat.of().toHexDigits(unit));
          }
        }
      }
    }
  }

  /** Format characters reorder, join or hide other characters. */
  private static boolean isPrintable(int codePoint) {
    return switch (Character.getType(codePoint)) {
      case Character.CONTROL,
          Character.FORMAT,
          Character.SURROGATE,
          Character.LINE_SEPARATOR,
          Character.PARAGRAPH_SEPARATOR,
          Character.PRIVATE_USE,
          Character.UNASSIGNED ->
          false;
      default -> true;
    };
  }
}
