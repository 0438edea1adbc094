package dev.gpuprocess.internal.proc;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.StringJoiner;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The hard resource limits of a process. Without {@code CAP_SYS_RESOURCE}, CRIU restores no limit
 * above the hard limit that CRIU itself has.
 *
 * @param pid the process, in its own pid namespace
 * @param limits unsigned numbers, by the name that {@code /proc/PID/limits} has, such as {@code Max
 *     open files}
 */
public record ResourceLimits(int pid, Map<String, Long> limits) {

  private static final Pattern LINE =
      Pattern.compile(
          "(Max [a-z ]*[a-z])\\s+(?:unlimited|\\d{1,20})\\s+(unlimited|\\d{1,20})\\b.*");

  private static final Pattern ENTRY = Pattern.compile("(Max_[a-z_]{1,30})=(-?\\d{1,19})");
  private static final String WORD = "limits";
  private static final String UNLIMITED = "unlimited";
  private static final long INFINITE = -1;

  /**
   * Reads the limits of a process.
   *
   * @return empty when it is gone
   */
  public static Optional<ResourceLimits> of(int pid) {
    Map<String, Long> limits = new LinkedHashMap<>();
    ProcFields.lines(ProcFs.read(pid, "limits").orElse(""))
        .map(LINE::matcher)
        .filter(Matcher::matches)
        .forEach(line -> limits.put(line.group(1), number(line.group(2))));
    return limits.isEmpty()
        ? Optional.empty()
        : Optional.of(new ResourceLimits(ProcFs.innermostPid(pid).orElse(pid), limits));
  }

  private static long number(String text) {
    return text.equals(UNLIMITED) ? INFINITE : Long.parseUnsignedLong(text);
  }

  /** Returns the limits that are above those of another process, a text for each. */
  public List<String> above(ResourceLimits other) {
    List<String> above = new ArrayList<>();
    limits.forEach(
        (name, limit) -> {
          long most = other.limits.getOrDefault(name, limit);
          if (Long.compareUnsigned(limit, most) > 0) {
            above.add("%s is %s, not %s".formatted(name, text(most), text(limit)));
          }
        });
    return above;
  }

  private static String text(long limit) {
    return limit == INFINITE ? UNLIMITED : Long.toUnsignedString(limit);
  }

  /**
   * Parses the text of {@link #toString}.
   *
   * @return empty when the line is something else
   */
  public static Optional<ResourceLimits> parse(String line) {
    String[] words = line.split(" ");
    if (words.length < 3 || !words[0].equals(WORD) || !words[1].matches("\\d{1,9}")) {
      return Optional.empty();
    }
    Map<String, Long> limits = new LinkedHashMap<>();
    for (String word : List.of(words).subList(2, words.length)) {
      Matcher entry = ENTRY.matcher(word);
      if (!entry.matches()) {
        return Optional.empty();
      }
      limits.put(entry.group(1).replace('_', ' '), Long.valueOf(entry.group(2)));
    }
    return Optional.of(new ResourceLimits(Integer.parseInt(words[1]), limits));
  }

  /** Returns one line for an image. */
  @Override
  public String toString() {
    StringJoiner line = new StringJoiner(" ");
    line.add(WORD).add(Integer.toString(pid));
    limits.forEach(
        (name, limit) -> line.add("%s=%s".formatted(name.replace(' ', '_'), Long.toString(limit))));
    return line.toString();
  }
}
