package dev.gpuprocess.internal.proc;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.MachineUnfitException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.function.Consumer;
import java.util.regex.Pattern;
import java.util.stream.Stream;

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

  /** Where the file system is mounted. */
  public static final Path ROOT = Path.of("/proc");

  private static final Set<String> ANONYMOUS = Set.of("RssAnon", "RssShmem");
  private static final int MAX_ARGUMENT_BYTES = 4096;
  private static final String CUT = "...";
  private static final int LONGEST_NUMBER = 32;

  /** The dynamic loader, whose arguments name the program. */
  private static final Pattern LOADER = Pattern.compile(".*/ld[^/]*\\.so[^/]*", Pattern.DOTALL);

  /** CRIU by its name, or under any name by the title that it gives itself. */
  private static final Pattern CRIU =
      Pattern.compile(
          "(?:.*/)?criu(?:[.-][^:/]*)?(?:: .*)?|[^:/]*: [a-z-]+ --rpc.*", Pattern.DOTALL);

  private ProcFs() {}

  /**
   * Reads {@code /proc/PID/stat}.
   *
   * @param pid any number
   * @return empty when the process does not exist
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

  /** Returns the id of a living thread of a process; the pid if no thread is alive. */
  public static int anyThread(int pid) {
    return livingThread(pid).map(ProcStat::pid).orElse(pid);
  }

  /** Returns a living thread of a process; one that has ended has no memory. */
  public static Optional<ProcStat> livingThread(long pid) {
    return eachTask(pid).filter(thread -> !thread.isDead()).findFirst();
  }

  /**
   * Reads the {@code stat} files of all threads of a process.
   *
   * @param pid the process
   * @return one for each thread, with the thread's id as the pid; empty when the process is gone
   */
  public static List<ProcStat> tasks(long pid) {
    return eachTask(pid).toList();
  }

  /** Reads the {@code stat} files of all threads of a process, each on demand. */
  public static Stream<ProcStat> eachTask(long pid) {
    return threads(pid).stream().flatMap(thread -> task(pid, thread).stream());
  }

  /**
   * Reads the {@code stat} file of one thread. If the first thread has ended, {@link #stat} and
   * {@link #status} return the fields of another thread; this method does not.
   *
   * @param pid the process
   * @param thread one of its threads
   * @return with the thread's id as the pid; empty when the thread is gone
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
    return ROOT.resolve(Long.toString(pid));
  }

  /**
   * Returns the path of what {@code /proc} shows of a process or thread.
   *
   * @param pid its number
   * @param names below its directory, such as {@code ns} and {@code net}
   */
  public static Path file(long pid, String... names) {
    return below(directory(pid), names);
  }

  /** Returns the path of what {@code /proc} shows of this process. */
  public static Path self(String... names) {
    return below(ROOT.resolve("self"), names);
  }

  private static Path below(Path directory, String... names) {
    Path path = directory;
    for (String name : names) {
      path = path.resolve(name);
    }
    return path;
  }

  /** Returns a path that leads to an open file of this process, whatever its name is by now. */
  public static Path descriptor(int number) {
    return self("fd", Integer.toString(number));
  }

  /** Returns the path of a file of the kernel that is not about a process. */
  public static Path kernel(String name) {
    return ROOT.resolve(name);
  }

  /**
   * Reads a file of the kernel that every whole {@code /proc} has.
   *
   * @param name such as {@code sys/kernel/random/boot_id}
   * @throws MachineUnfitException with reason PROC_HIDDEN when it is not there
   */
  public static String kernelText(String name) {
    try {
      return Files.readString(kernel(name)).strip();
    } catch (IOException e) {
      throw hidden(name, e);
    }
  }

  /**
   * Reads a number in a file of the kernel.
   *
   * @param name such as {@code sys/vm/max_map_count}
   * @throws IOException when it cannot be read
   */
  public static long kernelNumber(String name) throws IOException {
    try (InputStream file = Files.newInputStream(kernel(name))) {
      // In one read: the kernel has nothing for a second one, whatever the first one returned.
      byte[] text = new byte[LONGEST_NUMBER];
      int length = Math.max(0, file.read(text));
      return Long.parseLong(new String(text, 0, length, StandardCharsets.US_ASCII).strip());
    }
  }

  /** Returns the exception for a file of the kernel that this {@code /proc} does not have. */
  public static MachineUnfitException hidden(String name, IOException cause) {
    return new MachineUnfitException(
        MachineUnfitException.Reason.PROC_HIDDEN,
        "/proc/%s cannot be read%s: mount a whole /proc for this JVM, without subset=pid (systemd: ProcSubset=all)"
            .formatted(
                name,
                cause instanceof NoSuchFileException
                    ? ", because /proc has only processes"
                    : " (" + cause.getMessage() + ")"),
        Failure.of("read /proc", 0),
        cause);
  }

  static Path taskDirectory(long pid, int thread) {
    return directory(pid).resolve("task").resolve(Integer.toString(thread));
  }

  /**
   * Returns the directory of the main thread of a process or, if that has ended, of a living
   * thread.
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

  /** Returns the path of the executed file; empty for a process that is gone or not readable. */
  public static Optional<String> program(long pid) {
    try {
      return ProcFile.link(alive(pid).resolve("exe"));
    } catch (ProcessUnreadableException forbidden) {
      return Optional.empty();
    }
  }

  /**
   * Returns whether a process is a CRIU, or a command that runs one. Once CRIU has a request, it
   * may have written that over its arguments, after its name and a colon (setproctitle).
   *
   * @param pid the process
   * @return false when it is gone
   */
  public static boolean isCriu(long pid) {
    List<String> line = commandLine(pid);
    boolean isLoader = !line.isEmpty() && LOADER.matcher(line.get(0)).matches();
    return line.contains("swrk")
        || line.stream().limit(isLoader ? line.size() : 1).anyMatch(CRIU.asMatchPredicate());
  }

  /**
   * Lists the processes that can be seen from here.
   *
   * @return their pids, as of now
   */
  public static List<Integer> processes() {
    List<Integer> processes = new ArrayList<>();
    ProcFile.names(
        ROOT,
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
   * Lists the children of the first thread of a process: those that it has started, those of
   * threads that have ended, and the orphans for which the process is the nearest subreaper, or the
   * first of their pid namespace.
   *
   * @param pid the process
   * @return pids, as of now
   */
  public static List<Integer> childrenOfFirstThread(int pid) {
    return Descendants.childrenOf(pid, pid);
  }

  /**
   * Finds this JVM's process and its ancestors, children before parents.
   *
   * @return as of now; the first is this JVM
   */
  public static List<ProcStat> ownAncestry() {
    List<ProcStat> found = new ArrayList<>();
    Set<Integer> pids = new HashSet<>();
    Optional<ProcStat> next = stat(ProcessHandle.current().pid());
    while (next.isPresent() && pids.add(next.get().pid())) {
      found.add(next.get());
      next = stat(next.get().parent());
    }
    return found;
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
   * Visits the descriptors of a process, which may be a million.
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
   * Visits the mappings of a process, which may be a million.
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

  /**
   * Reads the pid of a process, or the id of a thread, in its own pid namespace, which differs from
   * the one here for a process of a container.
   *
   * @param pid a process or a thread
   * @return empty when it is gone
   */
  public static OptionalInt innermostPid(long pid) {
    // Of the first thread, also when it has ended: a living thread has another number.
    String status = ProcFile.text(directory(pid).resolve("status")).orElse("");
    String pids = ProcFields.parse(status).getOrDefault("NSpid", "");
    return pids.isEmpty()
        ? OptionalInt.empty()
        : OptionalInt.of(Integer.parseInt(pids.substring(pids.lastIndexOf('\t') + 1)));
  }

  /** Reads the status of one thread; empty when it is gone. */
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
   * Returns how much memory a dump of a process would write: its resident pages that no file backs.
   *
   * @param pid the process
   * @return bytes; 0 when it is gone
   */
  public static long anonymousBytes(long pid) {
    return ProcFields.bytes(read(pid, "status").orElse(""), ANONYMOUS).orElse(0);
  }

  /**
   * Returns whether a process is stopped, or about to be, because a control group is frozen.
   *
   * @param pid the process
   * @return true when the group of any of its threads, or one above it, is frozen, in either
   *     version of cgroups
   */
  public static boolean isFrozen(long pid) {
    return Freezer.look().of(pid) == Freezer.State.FROZEN;
  }

  /**
   * Returns whether a process has ended or is about to: it was killed or exits, but is not yet a
   * zombie. That takes a tenth of a second when the kernel has much to tear down.
   *
   * @param pid the process
   * @return true also when it is gone or a zombie
   */
  public static boolean isEnding(long pid) {
    LifeSign sign = LifeSign.of(pid);
    return sign == LifeSign.GONE || sign == LifeSign.ENDING;
  }

  /** Returns the current time in the unit of process start times, clock ticks since boot. */
  public static long ticksNow() {
    String uptime = ProcFile.text(ROOT.resolve("uptime")).orElse("");
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
