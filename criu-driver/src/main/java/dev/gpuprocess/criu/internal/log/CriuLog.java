package dev.gpuprocess.criu.internal.log;

import dev.gpuprocess.internal.linux.Descriptors;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * The relevant parts of a CRIU log.
 *
 * @param file the log, or null if CRIU never opened one
 * @param errors the relevant errors, oldest first, without timestamp, task and source position;
 *     without harmless ones and mere consequences of others
 * @param lastWarning the last warning, or empty
 * @param tail the end of the file
 * @param blamed the task at which CRIU failed, or 0 if CRIU does not say
 */
public record CriuLog(
    @Nullable Path file, List<String> errors, String lastWarning, String tail, int blamed) {

  /** The log of a CRIU that has written none. */
  public static final CriuLog NONE = new CriuLog(null, List.of(), "", "", 0);

  private static final int TAIL_LIMIT = 16 << 10;
  private static final long HEAD_LIMIT = 4L << 20;
  private static final long END_LIMIT = 12L << 20;
  private static final int ERROR_LIMIT = 100;

  // "(00.012345) pie: 12: Error (criu/pie/restorer.c:1): text": everything but the marker may be
  // missing.
  private static final Pattern LINE =
      Pattern.compile(
          "^(?:\\(\\d+\\.\\d+\\) ?)?(?: *\\d+: )?(?:pie: +)?(?:\\d+: )?"
              + "(Error|Warn ) \\([^)]*\\): (.*)$",
          Pattern.DOTALL);

  /** These also occur in the logs of successful runs. */
  private static final List<String> HARMLESS =
      List.of(
          "RLIMIT_NOFILE",
          "exited, status=",
          "execvp(\"iptables-save\"",
          "execvp(\"iptables-restore\"",
          "execvp(\"ip6tables-save\"",
          "execvp(\"ip6tables-restore\"",
          "-V failed");

  /** These only report that something failed, after another line has said what. */
  private static final List<String> CONSEQUENCES =
      List.of(
          "Unable to detach from",
          "One of more action scripts failed",
          "Dump files (pid",
          "Dump mappings (pid",
          "handle_device_vma plugin failed",
          "Message reply from daemon is trimmed",
          "si_code=",
          "Can't send response",
          "Dumping FAILED",
          "Pre-dumping FAILED",
          "Restoring FAILED");

  private static final Pattern BLAMED = Pattern.compile("Dump \\w+ \\(pid: (\\d{1,9})\\) failed");

  static CriuLog unreadable(Path file, IOException e) {
    return new CriuLog(file, List.of("the log cannot be read: " + e.getMessage()), "", "", 0);
  }

  /** Reads a log; if it is very long, only its beginning and its end. */
  public static CriuLog read(Path file) throws IOException {
    if (!Files.exists(file)) {
      return NONE;
    }
    String text;
    try (RandomAccessFile log = Descriptors.read(file)) {
      long size = log.length();
      text =
          size <= HEAD_LIMIT + END_LIMIT
              ? text(log, 0, size)
              : text(log, 0, HEAD_LIMIT) + "\n" + text(log, size - END_LIMIT, END_LIMIT);
    }
    String lastWarning = parts(text, "Warn ").reduce((earlier, later) -> later).orElse("");
    Matcher blamed = BLAMED.matcher(text);
    return new CriuLog(
        file,
        errorsIn(text),
        lastWarning,
        text.substring(Math.max(0, text.length() - TAIL_LIMIT)),
        blamed.find() ? Integer.parseInt(blamed.group(1)) : 0);
  }

  private static String text(RandomAccessFile log, long from, long length) throws IOException {
    byte[] bytes = new byte[(int) length];
    log.seek(from);
    int count = 0;
    for (int more = 0; more >= 0 && count < bytes.length; count += Math.max(0, more)) {
      // Reads less if the file was truncated.
      more = log.read(bytes, count, bytes.length - count);
    }
    // A log contains file names, so any byte can occur; the constructor replaces malformed ones.
    return new String(bytes, 0, count, StandardCharsets.UTF_8);
  }

  private static Stream<String> parts(String text, String level) {
    // Only a newline ends a line: a file name may contain a carriage return.
    return Stream.of(text.split("\n"))
        .map(LINE::matcher)
        .filter(parts -> parts.matches() && level.equals(parts.group(1)))
        .map(parts -> parts.group(2).strip().replaceAll("\\s*\t\\s*", " "));
  }

  /** The relevant errors in a log, or in output printed before the log was opened. */
  public static List<String> errorsIn(String text) {
    return parts(text, "Error").filter(CriuLog::matters).limit(ERROR_LIMIT).toList();
  }

  /** Returns whether an error is neither harmless nor a mere consequence of another one. */
  static boolean matters(String text) {
    return HARMLESS.stream().noneMatch(text::contains)
        && CONSEQUENCES.stream().noneMatch(text::contains);
  }
}
