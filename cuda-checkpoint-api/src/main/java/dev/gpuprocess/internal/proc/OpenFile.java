package dev.gpuprocess.internal.proc;

import java.util.ArrayList;
import java.util.List;
import java.util.OptionalInt;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * An open descriptor of a process.
 *
 * @param number the descriptor
 * @param target the target of {@code /proc/PID/fd/N}: a path, or {@code socket:[N]} and the like
 */
public record OpenFile(int number, String target) {

  private static final Pattern FLAGS = Pattern.compile("(?m)^flags:\\s*([0-7]{1,12})$");

  /**
   * Reads the descriptors of a process, which may be a million, and keeps those that are wanted.
   *
   * @param wanted called with each descriptor; its exception ends the reading
   * @throws ProcessUnreadableException when the process may not be read
   */
  public static List<OpenFile> of(int pid, Predicate<OpenFile> wanted) {
    List<OpenFile> found = new ArrayList<>();
    ProcFs.openFiles(
        pid,
        file -> {
          if (wanted.test(file)) {
            found.add(file);
          }
        });
    return found;
  }

  /** Returns the flags of an open descriptor of a process, as {@code open} has them; else empty. */
  public static OptionalInt flags(int pid, int descriptor) {
    Matcher flags = FLAGS.matcher(ProcFs.read(pid, "fdinfo/" + descriptor).orElse(""));
    return flags.find()
        ? OptionalInt.of((int) Long.parseLong(flags.group(1), 8))
        : OptionalInt.empty();
  }
}
