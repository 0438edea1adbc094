package dev.gpuprocess.internal.linux;

import dev.gpuprocess.internal.proc.ProcFs;
import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * The user and the groups with which the kernel checks the file accesses of a process ({@code
 * fsuid}, {@code fsgid} and the supplementary groups; credentials(7)).
 *
 * @param user the user id
 * @param group the group id
 * @param groups the supplementary group ids
 */
public record Credentials(int user, int group, List<Integer> groups) {

  private static final Pattern TEXT = Pattern.compile("(\\d{1,10}):(\\d{1,10}):([\\d,]{0,720896})");
  private static final int OF_FILES = 3;

  /** Constant while this JVM runs; null until it was read. */
  private static volatile @Nullable Credentials own;

  /** Copies the list. */
  public Credentials {
    groups = List.copyOf(groups);
  }

  /**
   * Reads the credentials of a process.
   *
   * @param pid the process
   * @return empty when the process is gone
   * @throws IOException when its real, effective, saved and file user ids differ: a program with
   *     the set-user-ID bit has the environment of the user who started it and the rights of
   *     another, so no file that it names may be opened with its rights
   * @throws dev.gpuprocess.internal.proc.ProcessUnreadableException when {@code /proc} cannot be
   *     read
   */
  public static Optional<Credentials> of(long pid) throws IOException {
    Map<String, String> status = ProcFs.status(pid);
    String user = status.get("Uid");
    String group = status.get("Gid");
    if (user == null || group == null) {
      return Optional.empty();
    }
    List<String> users = List.of(user.split("\\s+"));
    if (Set.copyOf(users).size() != 1) {
      throw new IOException("process %s has the rights of several users: %s".formatted(pid, users));
    }
    return Optional.of(
        new Credentials(
            Integer.parseUnsignedInt(users.get(OF_FILES)),
            Integer.parseUnsignedInt(group.split("\\s+")[OF_FILES]),
            numbers(status.getOrDefault("Groups", "").strip(), "\\s+")));
  }

  /**
   * Returns the credentials of this JVM, which are read once.
   *
   * @throws IOException when {@code /proc} is not mounted
   */
  static Credentials ours() throws IOException {
    Credentials known = own;
    if (known == null) {
      known =
          of(ProcessHandle.current().pid())
              .orElseThrow(() -> new IOException("/proc/self/status does not exist"));
      own = known;
    }
    return known;
  }

  private static List<Integer> numbers(String text, String separator) {
    return text.isEmpty()
        ? List.of()
        : Arrays.stream(text.split(separator)).map(Integer::parseUnsignedInt).toList();
  }

  /**
   * Parses the result of {@link #toString}.
   *
   * @return empty when the text is something else
   */
  public static Optional<Credentials> parse(String text) {
    Matcher fields = TEXT.matcher(text);
    if (!fields.matches()) {
      return Optional.empty();
    }
    try {
      return Optional.of(
          new Credentials(
              Integer.parseUnsignedInt(fields.group(1)),
              Integer.parseUnsignedInt(fields.group(2)),
              numbers(fields.group(3), ",")));
    } catch (NumberFormatException e) {
      return Optional.empty();
    }
  }

  /** The user, the group and the list of groups, separated by colons. */
  @Override
  public String toString() {
    return "%s:%s:%s"
        .formatted(
            Integer.toUnsignedString(user),
            Integer.toUnsignedString(group),
            groups.stream().map(Integer::toUnsignedString).collect(Collectors.joining(",")));
  }
}
