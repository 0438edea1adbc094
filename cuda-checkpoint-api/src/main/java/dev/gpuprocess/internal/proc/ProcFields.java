package dev.gpuprocess.internal.proc;

import java.util.HashMap;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/** Parses text of the kernel with lines such as {@code RssAnon: 1234 kB}. */
public final class ProcFields {

  private static final Pattern NEWLINE = Pattern.compile("\n", Pattern.LITERAL);

  private ProcFields() {}

  /**
   * Returns the values by name.
   *
   * @param text such as the content of {@code /proc/PID/status}
   * @return the values without the white space around them
   */
  static Map<String, String> parse(String text) {
    Map<String, String> values = new HashMap<>();
    lines(text)
        .forEach(
            line -> {
              int colon = line.indexOf(':');
              if (colon > 0) {
                values.put(line.substring(0, colon), line.substring(colon + 1).strip());
              }
            });
    return values;
  }

  /**
   * Adds up sizes.
   *
   * @param text such as the content of {@code /proc/meminfo}
   * @param names the fields to add, each in kB
   * @return bytes; empty when the text lacks the fields
   * @throws NumberFormatException when one of them is not a number of kB
   */
  public static OptionalLong bytes(String text, Set<String> names) {
    return parse(text).entrySet().stream()
        .filter(field -> names.contains(field.getKey()))
        .mapToLong(field -> Long.parseLong(field.getValue().replace("kB", "").strip()) << 10)
        .reduce(Long::sum);
  }

  /**
   * Returns the lines of a text of the kernel. Only a newline ends one: a carriage return, which
   * {@link String#lines()} also takes for an end, can be in the name of a process, a group or a
   * file.
   */
  static Stream<String> lines(String text) {
    return text.isEmpty() ? Stream.empty() : NEWLINE.splitAsStream(text);
  }
}
