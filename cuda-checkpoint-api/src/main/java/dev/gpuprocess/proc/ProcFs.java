package dev.gpuprocess.proc;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * Reads {@code /proc}. A process may end at any moment, so every answer can be empty; nothing here
 * throws because a process is gone.
 */
public final class ProcFs {

  private static final Pattern NEWLINE = Pattern.compile("\n", Pattern.LITERAL);
  private static final long SIGKILL_BIT = 1L << (9 - 1);

  private ProcFs() {}

  /**
   * Reads {@code /proc/PID/stat}.
   *
   * @param pid any number
   * @return empty when there is no such process
   */
  public static Optional<ProcStat> stat(long pid) {
    if (pid <= 0 || pid > Integer.MAX_VALUE) {
      return Optional.empty();
    }
    return read(pid, "stat").flatMap(ProcFs::parseStat);
  }

  private static Optional<ProcStat> parseStat(String line) {
    // The name is in parentheses and may itself hold blanks and parentheses.
    int open = line.indexOf('(');
    int close = line.lastIndexOf(')');
    if (open < 0 || close < open) {
      return Optional.empty();
    }
    String[] rest = line.substring(close + 2).trim().split(" ");
    return Optional.of(
        new ProcStat(
            Integer.parseInt(line.substring(0, open).trim()),
            line.substring(open + 1, close),
            rest[0].charAt(0),
            Integer.parseInt(rest[1]),
            Integer.parseInt(rest[2]),
            Integer.parseInt(rest[3]),
            Long.parseLong(rest[6]),
            Long.parseLong(rest[19])));
  }

  /**
   * Reads the arguments of a process.
   *
   * @param pid the process
   * @return program first; empty for a kernel thread, a zombie, or a process that is gone
   */
  public static List<String> commandLine(long pid) {
    String line = read(pid, "cmdline").orElse("");
    return line.isEmpty() ? List.of() : List.of(line.split("\0"));
  }

  /**
   * Finds all descendants of a process, parents before children.
   *
   * @param pid the root, not part of the answer
   * @return pids, as of now
   */
  public static List<Integer> descendants(long pid) {
    List<Integer> found = new ArrayList<>();
    Deque<Long> todo = new ArrayDeque<>(List.of(pid));
    while (!todo.isEmpty()) {
      long parent = todo.remove();
      for (String task : names(Path.of("/proc", Long.toString(parent), "task"))) {
        for (String child : read(parent, "task/" + task + "/children").orElse("").split(" ")) {
          if (!child.isBlank()) {
            found.add(Integer.valueOf(child.trim()));
            todo.add(Long.valueOf(child.trim()));
          }
        }
      }
    }
    return found;
  }

  /**
   * Lists what the descriptors of a process point to.
   *
   * @param pid the process
   * @return one entry a descriptor, in no order
   */
  public static List<OpenFile> openFiles(long pid) {
    Path directory = Path.of("/proc", Long.toString(pid), "fd");
    List<OpenFile> files = new ArrayList<>();
    for (String name : names(directory)) {
      linkTarget(directory.resolve(name))
          .ifPresent(target -> files.add(new OpenFile(Integer.parseInt(name), target)));
    }
    return files;
  }

  /**
   * Lists what the descriptors of a process point to, as far as we may know it.
   *
   * @param pid the process
   * @return one entry a descriptor, in no order; none of a process that we may not look into
   */
  public static List<OpenFile> visibleFiles(long pid) {
    try {
      return openFiles(pid);
    } catch (UncheckedIOException forbidden) {
      return List.of();
    }
  }

  private static Optional<String> linkTarget(Path link) {
    try {
      return Optional.of(Files.readSymbolicLink(link).toString());
    } catch (IOException closedMeanwhile) {
      return Optional.empty();
    }
  }

  /**
   * Lists the mappings of a process as the kernel prints them.
   *
   * @param pid the process
   * @return the lines of {@code /proc/PID/maps}
   */
  public static List<String> mappings(long pid) {
    return read(pid, "maps").map(text -> lines(text).toList()).orElse(List.of());
  }

  /**
   * Lists the mappings of a process.
   *
   * @param pid the process
   * @return in the order of their addresses
   */
  public static List<Mapping> memory(long pid) {
    return mappings(pid).stream().flatMap(line -> Mapping.parse(line).stream()).toList();
  }

  /**
   * Reads {@code /proc/PID/status}.
   *
   * @param pid a process or a thread
   * @return the values by name, such as {@code TracerPid}; empty when it is gone
   */
  public static Map<String, String> status(long pid) {
    Map<String, String> values = new HashMap<>();
    for (String line : read(pid, "status").orElse("").split("\n")) {
      int colon = line.indexOf(':');
      if (colon > 0) {
        values.put(line.substring(0, colon), line.substring(colon + 1).strip());
      }
    }
    return values;
  }

  /**
   * Lists the threads of a process.
   *
   * @param pid the process
   * @return their ids, the process's own among them; empty when it is gone
   */
  public static List<Integer> threads(long pid) {
    return names(Path.of("/proc", Long.toString(pid), "task")).stream()
        .map(Integer::valueOf)
        .toList();
  }

  /**
   * Sums up the memory that a dump of a process would write: resident pages that no file backs.
   *
   * @param pid the process
   * @return bytes; 0 when it is gone
   */
  public static long anonymousBytes(long pid) {
    return read(pid, "status")
        .map(
            text ->
                lines(text)
                    .filter(line -> line.startsWith("RssAnon:") || line.startsWith("RssShmem:"))
                    .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", "")) << 10)
                    .sum())
        .orElse(0L);
  }

  /**
   * Tells whether a process stands still because its control group is frozen.
   *
   * @param pid the process
   * @return true for a frozen group of either version of cgroups
   */
  public static boolean isFrozen(long pid) {
    for (String line : lines(read(pid, "cgroup").orElse("")).toList()) {
      String[] parts = line.split(":", 3);
      if (parts.length == 3 && isFrozen(parts[1], parts[2])) {
        return true;
      }
    }
    return false;
  }

  private static boolean isFrozen(String controllers, String group) {
    Path root = Path.of("/sys/fs/cgroup");
    String name = group.startsWith("/") ? group.substring(1) : group;
    if (controllers.isEmpty()) {
      // Where both versions are mounted the second one has a directory of its own.
      return says(root.resolve(name).resolve("cgroup.events"), "frozen 1")
          || says(root.resolve("unified").resolve(name).resolve("cgroup.events"), "frozen 1");
    }
    return controllers.equals("freezer")
        && says(root.resolve("freezer").resolve(name).resolve("freezer.state"), "FROZEN");
  }

  private static boolean says(Path file, String line) {
    try {
      return Files.readAllLines(file).contains(line);
    } catch (IOException noSuchGroupHere) {
      return false;
    }
  }

  /**
   * Tells whether a process is on its way out: killed, and not yet a zombie. That takes a tenth of
   * a second when the kernel has much to tear down.
   *
   * @param pid the process
   * @return true also when it is gone or a zombie
   */
  public static boolean isEnding(long pid) {
    Optional<ProcStat> stat = stat(pid);
    return stat.isEmpty()
        || stat.get().isDead()
        || stat.get().isExiting()
        || read(pid, "status").map(ProcFs::isKilled).orElse(true);
  }

  private static boolean isKilled(String status) {
    return lines(status)
        .filter(line -> line.startsWith("SigPnd:") || line.startsWith("ShdPnd:"))
        .map(line -> line.substring(line.indexOf(':') + 1).strip())
        .anyMatch(mask -> (Long.parseUnsignedLong(mask, 16) & SIGKILL_BIT) != 0);
  }

  /**
   * The time as start times are counted.
   *
   * @return clock ticks since boot
   */
  public static long ticksNow() {
    try {
      String uptime = Files.readString(Path.of("/proc/uptime"));
      // USER_HZ is 100 on every Linux that CUDA runs on.
      return (long) (Double.parseDouble(uptime.substring(0, uptime.indexOf(' '))) * 100);
    } catch (IOException e) {
      throw new UncheckedIOException("/proc is not mounted", e);
    }
  }

  /**
   * Reads a file below {@code /proc/PID}.
   *
   * @param pid the process
   * @param file such as {@code status}
   * @return its text; empty when process or file is gone
   */
  public static Optional<String> read(long pid, String file) {
    Path path = Path.of("/proc", Long.toString(pid), file);
    try {
      return Optional.of(new String(Files.readAllBytes(path), StandardCharsets.UTF_8));
    } catch (IOException gone) {
      return Optional.empty();
    }
  }

  /**
   * The lines of a text of the kernel. Only a newline ends one: a carriage return, which {@link
   * String#lines()} takes for an end too, can be in the name of a process, a group or a file.
   */
  static Stream<String> lines(String text) {
    return text.isEmpty() ? Stream.empty() : NEWLINE.splitAsStream(text);
  }

  private static List<String> names(Path directory) {
    List<String> names = new ArrayList<>();
    try (DirectoryStream<Path> entries = Files.newDirectoryStream(directory)) {
      entries.forEach(entry -> names.add(String.valueOf(entry.getFileName())));
    } catch (NoSuchFileException gone) {
      return names;
    } catch (java.nio.file.DirectoryIteratorException | IOException e) {
      if (Files.exists(directory)) {
        throw new UncheckedIOException(
            "cannot read " + directory, e instanceof IOException io ? io : new IOException(e));
      }
    }
    return names;
  }
}
