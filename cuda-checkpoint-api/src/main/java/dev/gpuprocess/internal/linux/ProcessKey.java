package dev.gpuprocess.internal.linux;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * The identity of a process that is valid in every pid namespace of this machine until it is
 * rebooted. The pid of a process differs between a host and its containers. Immutable.
 *
 * @param namespace the inode of the innermost pid namespace that the process is in
 * @param pid its pid there
 * @param startTicks when it started, in clock ticks since boot
 */
public record ProcessKey(long namespace, int pid, long startTicks) {

  /** {@code PROC_PID_INIT_INO}: the inode of the first pid namespace. */
  private static final long FIRST_NAMESPACE = 0xefff_fffcL;

  private static final Pattern LINK = Pattern.compile("pid:\\[(\\d{1,18})]");
  private static final Pattern TEXT = Pattern.compile("(\\d{1,18})-(\\d{1,9})-(\\d{1,18})");

  /** Constant while this JVM runs; null until it was read. */
  private static volatile @Nullable ProcessKey self;

  private static volatile @Nullable String boot;

  /** Returns the key of this JVM. */
  public static ProcessKey self() {
    ProcessKey known = self;
    if (known == null) {
      try {
        String stat = Files.readString(ProcFs.self("stat"));
        known =
            new ProcessKey(
                parseLink(Files.readSymbolicLink(ProcFs.self("ns", "pid"))),
                (int) ProcessHandle.current().pid(),
                Long.parseLong(stat.substring(stat.lastIndexOf(')') + 2).split(" ")[19]));
      } catch (IOException e) {
        throw new UncheckedIOException("/proc does not show this process", e);
      }
      self = known;
    }
    return known;
  }

  /**
   * Returns the kernel's boot id, which is the same in all namespaces of this machine and changes
   * with every boot.
   *
   * @throws dev.gpuprocess.error.MachineUnfitException with reason PROC_HIDDEN when {@code /proc}
   *     has only processes
   */
  public static String boot() {
    String known = boot;
    if (known == null) {
      known = ProcFs.kernelText("sys/kernel/random/boot_id");
      boot = known;
    }
    return known;
  }

  /**
   * Returns the key of a process that {@code /proc} shows. A process that is gone, or whose
   * namespace this JVM may not read, counts as one of this namespace: no controller of the same
   * user can read it either.
   */
  public static ProcessKey of(ProcessIdentity process) {
    long ours = self().namespace();
    OptionalLong namespace = namespaceOf(process.pid());
    if (namespace.isPresent() && namespace.getAsLong() != ours) {
      OptionalInt inner = ProcFs.innermostPid(process.pid());
      if (Processes.stat(process).isPresent()) {
        return new ProcessKey(
            namespace.getAsLong(),
            inner.orElseThrow(
                () ->
                    new UncheckedIOException(
                        new IOException("cannot read /proc/" + process.pid() + "/status"))),
            process.startTicks());
      }
    }
    return new ProcessKey(ours, process.pid(), process.startTicks());
  }

  /**
   * Reads the pid namespace of a process, without opening a file.
   *
   * @return empty when the process is gone, or permission is missing
   * @throws ProcessUnreadableException when it cannot be read now
   */
  static OptionalLong namespaceOf(int pid) {
    Path link = ProcFs.file(pid, "ns", "pid");
    try {
      return OptionalLong.of(parseLink(Files.readSymbolicLink(link)));
    } catch (NoSuchFileException | AccessDeniedException notTold) {
      return OptionalLong.empty();
    } catch (IOException e) {
      if (ProcFs.stat(pid).isEmpty()) {
        return OptionalLong.empty();
      }
      throw new ProcessUnreadableException(
          "%s cannot be read (%s), so it is not known which process %s is: try again"
              .formatted(link, e, pid),
          Failure.of("read namespace", pid),
          e);
    }
  }

  private static long parseLink(Path link) throws IOException {
    Matcher form = LINK.matcher(link.toString());
    if (!form.matches()) {
      throw new IOException("not a pid namespace: " + link);
    }
    return Long.parseLong(form.group(1));
  }

  /** Parses the result of {@link #text}; throws IllegalArgumentException for another text. */
  public static ProcessKey parse(String text) {
    Matcher form = TEXT.matcher(text);
    if (!form.matches()) {
      throw new IllegalArgumentException("not a process: " + text);
    }
    return parse(form.group(1), form.group(2), form.group(3));
  }

  /** Parses the numbers of a key; throws NumberFormatException for other texts. */
  public static ProcessKey parse(String namespace, String pid, String startTicks) {
    return new ProcessKey(
        Long.parseLong(namespace), Integer.parseInt(pid), Long.parseLong(startTicks));
  }

  /** Returns a form that can be part of a file name. */
  public String text() {
    return "%s-%s-%s"
        .formatted(Long.toString(namespace), Integer.toString(pid), Long.toString(startTicks));
  }

  /** Returns whether this JVM is in the first pid namespace, which shows all processes. */
  public static boolean isInFirstNamespace() {
    return self().namespace() == FIRST_NAMESPACE;
  }

  public boolean isSelf() {
    return equals(self());
  }

  /**
   * Returns whether the process has certainly ended; false for a process in a namespace that is not
   * visible from here.
   */
  public boolean hasEnded() {
    return find().isGone();
  }

  /** Searches the process from this namespace. */
  public ProcessSearch find() {
    return ProcessSearch.find(namespace, pid, start -> start == startTicks);
  }
}
