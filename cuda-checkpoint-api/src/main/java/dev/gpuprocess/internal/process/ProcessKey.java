package dev.gpuprocess.internal.process;

import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * Which process it is, in a way that holds in every pid namespace of this machine until it is
 * started anew. A pid differs between a host and its containers.
 *
 * @param namespace the inode of the innermost pid namespace that the process is in
 * @param pid its pid there
 * @param startTicks when it started, in clock ticks since boot
 */
record ProcessKey(long namespace, int pid, long startTicks) {

  private static final Pattern LINK = Pattern.compile("pid:\\[(\\d{1,18})]");
  private static final Pattern TEXT = Pattern.compile("(\\d{1,18})-(\\d{1,9})-(\\d{1,18})");

  /** Does not change while this JVM runs; null until it was read. */
  private static volatile @Nullable ProcessKey self;

  private static volatile @Nullable String boot;

  /** This JVM. */
  static ProcessKey self() {
    ProcessKey known = self;
    if (known == null) {
      try {
        String stat = Files.readString(Path.of("/proc/self/stat"));
        known =
            new ProcessKey(
                parseLink(Files.readSymbolicLink(Path.of("/proc/self/ns/pid"))),
                (int) ProcessHandle.current().pid(),
                Long.parseLong(stat.substring(stat.lastIndexOf(')') + 2).split(" ")[19]));
      } catch (IOException e) {
        throw new UncheckedIOException("/proc does not tell of this process", e);
      }
      self = known;
    }
    return known;
  }

  /** Names the time since this machine was started, the same in all its namespaces. */
  static String boot() {
    String known = boot;
    if (known == null) {
      try {
        known = Files.readString(Path.of("/proc/sys/kernel/random/boot_id")).strip();
      } catch (IOException e) {
        throw new UncheckedIOException("/proc does not tell the boot id", e);
      }
      boot = known;
    }
    return known;
  }

  /**
   * Of a process that {@code /proc} shows. One that is gone, or of which the kernel does not tell
   * us the namespace, counts as one of ours: then it tells no controller that runs as the same
   * user.
   */
  static ProcessKey of(ProcessIdentity process) {
    long ours = self().namespace();
    OptionalLong namespace = namespaceOf(process.pid());
    if (namespace.isPresent() && namespace.getAsLong() != ours) {
      OptionalInt inner = innermostPid(process.pid());
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

  /** Empty when the process is gone, or is not ours to look into. Opens no file. */
  static OptionalLong namespaceOf(int pid) {
    try {
      return OptionalLong.of(
          parseLink(Files.readSymbolicLink(Path.of("/proc", Integer.toString(pid), "ns", "pid"))));
    } catch (IOException notTold) {
      return OptionalLong.empty();
    }
  }

  /** The pid of a process in its own namespace; empty when it is gone. */
  static OptionalInt innermostPid(int pid) {
    String pids = ProcFs.status(pid).getOrDefault("NSpid", "").strip();
    return pids.isEmpty()
        ? OptionalInt.empty()
        : OptionalInt.of(Integer.parseInt(pids.substring(pids.lastIndexOf('\t') + 1)));
  }

  private static long parseLink(Path link) throws IOException {
    Matcher form = LINK.matcher(link.toString());
    if (!form.matches()) {
      throw new IOException("not a pid namespace: " + link);
    }
    return Long.parseLong(form.group(1));
  }

  /** Reads what {@link #text} wrote; throws IllegalArgumentException when it is something else. */
  static ProcessKey parse(String text) {
    Matcher form = TEXT.matcher(text);
    if (!form.matches()) {
      throw new IllegalArgumentException("not a process: " + text);
    }
    return new ProcessKey(
        Long.parseLong(form.group(1)),
        Integer.parseInt(form.group(2)),
        Long.parseLong(form.group(3)));
  }

  /** As part of a file's name. */
  String text() {
    return "%s-%s-%s"
        .formatted(Long.toString(namespace), Integer.toString(pid), Long.toString(startTicks));
  }

  boolean isSelf() {
    return equals(self());
  }

  /** Whether it is certain that it has ended. Who cannot see it, cannot be certain. */
  boolean hasEnded() {
    return ProcessSearch.find(namespace, pid, start -> start == startTicks).isGone();
  }
}
