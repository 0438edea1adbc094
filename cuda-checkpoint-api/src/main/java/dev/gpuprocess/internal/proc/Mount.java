package dev.gpuprocess.internal.proc;

import dev.gpuprocess.internal.text.NativePath;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A mount ({@code /proc/PID/mountinfo}).
 *
 * @param device the numbers of the device, such as {@code 254:0}
 * @param root the directory of the file system that is mounted
 * @param point where it is mounted
 * @param type the type of the file system
 * @param options the options of the file system
 */
public record Mount(String device, String root, Path point, String type, String options) {

  private static final Pattern ESCAPED = Pattern.compile("\\\\([0-7]{3})");
  private static final Pattern ID = Pattern.compile("(\\d{1,9}) ");
  private static final String SEPARATOR = " - ";
  private static final int DEVICE = 2;
  private static final int ROOT = 3;
  private static final int POINT = 4;
  private static final int OPTIONS = 2;

  /** Reads the mounts of a process; a later mount covers the earlier ones at its point. */
  public static List<Mount> of(long pid) {
    return in(ProcFs.file(pid, "mountinfo"));
  }

  /**
   * Reads the ids of the mounts of a process, as {@code mnt_id} in an fdinfo has them.
   *
   * @return empty for a zombie, which has no mounts
   */
  public static Set<Integer> ids(long pid) {
    Set<Integer> ids = new HashSet<>();
    try {
      ProcFile.lines(
          ProcFs.alive(pid).resolve("mountinfo"),
          line -> {
            Matcher id = ID.matcher(line);
            if (id.lookingAt()) {
              ids.add(Integer.valueOf(id.group(1)));
            }
          });
    } catch (ProcessUnreadableException e) {
      if (ProcFs.livingThread(pid).isPresent()) {
        throw e;
      }
      return Set.of();
    }
    return ids;
  }

  /** Reads the mounts of this process. */
  public static List<Mount> ours() {
    return in(ProcFs.self("mountinfo"));
  }

  /** Returns whether this mount has all files of another one below its point. */
  public boolean shows(Mount other) {
    return device.equals(other.device)
        && (root.equals("/") || other.root.equals(root) || other.root.startsWith(root + "/"));
  }

  /** Returns the path below this mount of the root of another mount, which this one shows. */
  public Path pathOf(Mount other) {
    String below = other.root.substring(root.equals("/") ? 0 : root.length());
    return below.isEmpty() || below.equals("/")
        ? point
        : NativePath.of((point.equals(Path.of("/")) ? "" : NativePath.text(point)) + below);
  }

  private static List<Mount> in(Path file) {
    List<Mount> mounts = new ArrayList<>();
    ProcFile.lines(file, line -> parse(line).ifPresent(mounts::add));
    return mounts;
  }

  /**
   * Parses one line, such as {@code 41 31 254:0 / /home rw,relatime shared:1 - ext4 /dev/vda rw}.
   *
   * @return empty when it does not describe a mount
   */
  static Optional<Mount> parse(String line) {
    int separator = line.indexOf(SEPARATOR);
    if (separator < 0) {
      return Optional.empty();
    }
    String[] place = line.substring(0, separator).split(" ");
    String[] system = line.substring(separator + SEPARATOR.length()).split(" ");
    return place.length <= POINT || system.length <= OPTIONS
        ? Optional.empty()
        : Optional.of(
            new Mount(
                place[DEVICE],
                text(place[ROOT]),
                NativePath.of(text(place[POINT])),
                system[0],
                system[OPTIONS]));
  }

  /** Decodes a field, in which the kernel escapes white space. */
  private static String text(String escaped) {
    return ESCAPED
        .matcher(escaped)
        .replaceAll(
            code ->
                Matcher.quoteReplacement(
                    Character.toString((char) Integer.parseInt(code.group(1), 8))));
  }
}
