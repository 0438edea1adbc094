package dev.gpuprocess.proc;

/**
 * Text from outside in a form that can be printed: names of processes, files and sockets, lines of
 * logs. Whoever chooses a name could otherwise write to the terminal or into the log of whoever
 * reads it: a line of its own, an escape sequence, or words in another order.
 */
public final class Printable {

  private static final int MOST_CHARACTERS = 16 << 10;

  private Printable() {}

  /**
   * Makes a text of any length that is reasonable in a message.
   *
   * @param text anything
   * @return one line
   */
  public static String of(String text) {
    return of(text, MOST_CHARACTERS);
  }

  /**
   * Makes a text of some length.
   *
   * @param text anything
   * @param most how many of its characters to show
   * @return one line: control, format and separator characters as Java writes them, such as {@code
   *     \n} or {@code \}{@code u001b}, and {@code ...} in place of what is too much
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
            printable.append("\\u").append(hex(unit));
          }
        }
      }
    }
  }

  private static String hex(char unit) {
    String digits = Integer.toHexString(unit);
    return "0".repeat(4 - digits.length()) + digits;
  }

  /** Format characters are those that reorder, join or hide others. */
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
