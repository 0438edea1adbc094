package dev.gpuprocess.internal.proc;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ProcessUnreadableException;
import java.nio.charset.StandardCharsets;
import java.nio.file.AccessDeniedException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.function.Consumer;

/**
 * Reads {@code /proc}. A process may end at any moment, so every answer can be empty; nothing here
 * throws because a process is gone. A process that exists but cannot be read is never taken for
 * gone: every method then throws {@link ProcessUnreadableException}. Safe for use by several
 * threads.
 *
 * <p>A process lives as long as one of its threads does. The kernel shows a process whose main
 * thread has ended as a zombie without descriptors, mappings and control groups; these are read
 * from another thread that is alive.
 */
public final class ProcFs {

  private static final Path PROC = Path.of("/proc");
  private static final Set<String> ANONYMOUS = Set.of("RssAnon", "RssShmem");
  private static final int MAX_ARGUMENT_BYTES = 4096;
  private static final String CUT = "...";

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
    Optional<ProcStat> leader = parse(directory(pid));
    return leader.filter(ProcStat::isDead).isEmpty()
        ? leader
        : livingThread(pid).map(thread -> leader.get().livingAs(thread)).or(() -> leader);
  }

  /** A thread that stands in for the main thread. */
  /** Returns the id of a living thread of a process; the pid if it has none. */
  public static int anyThread(int pid) {
    return livingThread(pid).map(ProcStat::pid).orElse(pid);
  }

  /** Returns a living thread of a process; one that has ended has no memory. */
  public static Optional<ProcStat> livingThread(long pid) {
    return tasks(pid).stream().filter(thread -> !thread.isDead()).findFirst();
  }

  /**
   * Reads the {@code stat} files of all threads of a process.
   *
   * @param pid the process
   * @return one for each thread, with the thread's id in place of the pid; empty when it is gone
   */
  public static List<ProcStat> tasks(long pid) {
    return threads(pid).stream().flatMap(thread -> task(pid, thread).stream()).toList();
  }

  /**
   * Reads the {@code stat} file of one thread. Of a first thread that has ended {@link #stat} and
   * {@link #status} return what another thread has; this does not.
   *
   * @param pid the process
   * @param thread one of its threads
   * @return with the thread's id in place of the pid; empty when the thread is gone
   */
  public static Optional<ProcStat> task(long pid, int thread) {
    return parse(taskDirectory(pid, thread));
  }

  static Optional<ProcStat> parse(Path task) {
    Path file = task.resolve("stat");
    Optional<String> line = ProcFile.text(file);
    try {
      return line.map(ProcStat::parse);
    } catch (IllegalArgumentException e) {
      throw new ProcessUnreadableException(
          "%s cannot be parsed (%s): this kernel writes it in an unknown format"
              .formatted(file, e.getMessage()),
          Failure.of("read stat", 0),
          e);
    }
  }

  private static Path directory(long pid) {
    return PROC.resolve(Long.toString(pid));
  }

  static Path taskDirectory(long pid, int thread) {
    return directory(pid).resolve("task").resolve(Integer.toString(thread));
  }

  /**
   * The directory that shows what a process has: that of its main thread, or of one that is alive.
   */
  static Path alive(long pid) {
    return stat(pid).filter(ProcStat::firstThreadEnded).isEmpty()
        ? directory(pid)
        : livingThread(pid).map(thread -> directory(thread.pid())).orElse(directory(pid));
  }

  /**
   * Reads the arguments of a process, up to 4096 bytes of them.
   *
   * @param pid the process
   * @return the program first; the last argument ends with {@code ...} when there are more bytes;
   *     empty for a kernel thread, a zombie, or a process that is gone
   */
  public static List<String> commandLine(long pid) {
    byte[] bytes =
        ProcFile.head(alive(pid).resolve("cmdline"), MAX_ARGUMENT_BYTES + 1).orElse(new byte[0]);
    boolean cut = bytes.length > MAX_ARGUMENT_BYTES;
    String line =
        new String(bytes, 0, Math.min(bytes.length, MAX_ARGUMENT_BYTES), StandardCharsets.UTF_8);
    return line.isEmpty() ? List.of() : List.of((cut ? line + CUT : line).split("\0"));
  }

  /**
   * Lists the processes that can be seen from here.
   *
   * @return their pids, as of now
   */
  public static List<Integer> processes() {
    List<Integer> processes = new ArrayList<>();
    ProcFile.names(
        PROC,
        name -> {
          if (Character.isDigit(name.charAt(0))) {
            processes.add(Integer.valueOf(name));
          }
        });
    return processes;
  }

  /**
   * Finds all descendants of a process, parents before children.
   *
   * @param pid the root, which is not part of the answer
   * @return pids, as of now
   * @throws ProcessUnreadableException also when there are more than 32768
   */
  public static List<Integer> descendants(long pid) {
    return Descendants.of(pid);
  }

  /**
   * Finds a process and all its descendants, parents before children.
   *
   * @param root the first of the answer
   * @return pids, as of now
   * @throws ProcessUnreadableException also when there are more than 32768
   */
  public static List<Integer> tree(int root) {
    List<Integer> tree = new ArrayList<>(List.of(root));
    tree.addAll(descendants(root));
    return tree;
  }

  /**
   * Lists what the descriptors of a process point to.
   *
   * @param pid the process
   * @return one entry for each descriptor, in no particular order
   */
  public static List<OpenFile> openFiles(long pid) {
    List<OpenFile> files = new ArrayList<>();
    openFiles(pid, files::add);
    return files;
  }

  /**
   * Visits the descriptors of a process, of which there may be a million.
   *
   * @param pid the process
   * @param each called with each descriptor and its target; an exception ends the walk
   */
  public static void openFiles(long pid, Consumer<OpenFile> each) {
    Path directory = alive(pid).resolve("fd");
    ProcFile.names(
        directory,
        name ->
            ProcFile.link(directory.resolve(name))
                .ifPresent(target -> each.accept(new OpenFile(Integer.parseInt(name), target))));
  }

  /**
   * Lists what the descriptors of a process point to, if we have permission.
   *
   * @param pid the process
   * @return one entry for each descriptor, in no particular order; empty without permission
   */
  public static List<OpenFile> visibleFiles(long pid) {
    try {
      return openFiles(pid);
    } catch (ProcessUnreadableException e) {
      if (e.getCause() instanceof AccessDeniedException) {
        return List.of();
      }
      throw e;
    }
  }

  /**
   * Lists the mappings of a process.
   *
   * @param pid the process
   * @return ordered by address
   */
  public static List<Mapping> memory(long pid) {
    List<Mapping> mappings = new ArrayList<>();
    memory(pid, mappings::add);
    return mappings;
  }

  /**
   * Visits the mappings of a process, of which there may be a million.
   *
   * @param pid the process
   * @param each called with each mapping, ordered by address; an exception ends the walk
   */
  public static void memory(long pid, Consumer<Mapping> each) {
    ProcFile.lines(alive(pid).resolve("maps"), line -> Mapping.parse(line).ifPresent(each));
  }

  /**
   * Reads {@code /proc/PID/status}.
   *
   * @param pid a process or a thread
   * @return the values by name, such as {@code TracerPid}; empty when it is gone
   */
  public static Map<String, String> status(long pid) {
    return ProcFields.parse(read(pid, "status").orElse(""));
  }

  /** The status of one thread; empty when it is gone. */
  static Map<String, String> status(long pid, int thread) {
    return ProcFields.parse(ProcFile.text(taskDirectory(pid, thread).resolve("status")).orElse(""));
  }

  /**
   * Lists the threads of a process.
   *
   * @param pid the process
   * @return their ids, the process's own among them; empty when it is gone
   */
  public static List<Integer> threads(long pid) {
    List<Integer> threads = new ArrayList<>();
    ProcFile.names(directory(pid).resolve("task"), name -> threads.add(Integer.valueOf(name)));
    return threads;
  }

  /**
   * Finds the tracer of a process or of any of its threads.
   *
   * @param pid the process
   * @return the tracer's pid; empty when it is not traced, or by a process outside this pid
   *     namespace
   */
  public static OptionalInt tracer(long pid) {
    return threads(pid).stream()
        .map(thread -> status(pid, thread).getOrDefault("TracerPid", "0"))
        .filter(tracer -> !tracer.equals("0"))
        // the tracer is a thread
        .map(tracer -> status(Long.parseLong(tracer)).getOrDefault("Tgid", tracer))
        .mapToInt(Integer::parseInt)
        .findFirst();
  }

  /**
   * The memory that a dump of a process would write: resident pages that no file backs.
   *
   * @param pid the process
   * @return bytes; 0 when it is gone
   */
  public static long anonymousBytes(long pid) {
    return ProcFields.bytes(read(pid, "status").orElse(""), ANONYMOUS).orElse(0);
  }

  /**
   * Tells whether a process is stopped, or about to be, because a control group is frozen.
   *
   * @param pid the process
   * @return true when the group of any of its threads, or one above it, is frozen, in either
   *     version of cgroups
   */
  public static boolean isFrozen(long pid) {
    return Freezer.look().of(pid) == Freezer.State.FROZEN;
  }

  /**
   * Tells whether a process has ended or is about to: it was killed or exits, but is not yet a
   * zombie. That takes a tenth of a second when the kernel has much to tear down.
   *
   * @param pid the process
   * @return true also when it is gone or a zombie
   */
  public static boolean isEnding(long pid) {
    LifeSign sign = LifeSign.of(pid);
    return sign == LifeSign.GONE || sign == LifeSign.ENDING;
  }

  /**
   * The current time in the units of process start times.
   *
   * @return clock ticks since boot
   */
  public static long ticksNow() {
    String uptime = ProcFile.text(PROC.resolve("uptime")).orElse("");
    if (uptime.isBlank()) {
      throw new ProcessUnreadableException(
          "/proc is not mounted", Failure.of("read /proc/uptime", 0));
    }
    // USER_HZ is 100 on every Linux that CUDA runs on.
    return (long) (Double.parseDouble(uptime.substring(0, uptime.indexOf(' '))) * 100);
  }

  /**
   * Reads a file below {@code /proc/PID}.
   *
   * @param pid the process
   * @param file such as {@code status}
   * @return its text; empty when process or file is gone
   * @throws ProcessUnreadableException also when it has more than 16 MiB
   */
  public static Optional<String> read(long pid, String file) {
    return ProcFile.text(alive(pid).resolve(file));
  }
}
