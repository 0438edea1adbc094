package dev.gpuprocess;

import dev.gpuprocess.proc.ProcFs;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Which process it is, in a way that holds in every pid namespace of this machine, until it is
 * started anew. A pid differs between a host and its containers.
 *
 * @param namespace the inode of the innermost pid namespace that the process is in
 * @param pid its pid there
 * @param startTicks when it started, in clock ticks since boot
 */
record ProcessKey(long namespace, int pid, long startTicks) {

  private static final Pattern LINK = Pattern.compile("pid:\\[(\\d+)]");

  /** Does not change while this JVM runs; null until it was read. */
  private static volatile @org.jspecify.annotations.Nullable ProcessKey self;

  /** This JVM. */
  static ProcessKey self() {
    ProcessKey known = self;
    if (known == null) {
      try {
        long namespace = namespace(Path.of("/proc/self/ns/pid"));
        int pid = (int) ProcessHandle.current().pid();
        known = new ProcessKey(namespace, pid, startOfSelf());
      } catch (IOException e) {
        throw new UncheckedIOException("/proc does not tell of this process", e);
      }
      self = known;
    }
    return known;
  }

  /** The same in whatever pid namespace {@code /proc} is of. */
  private static long startOfSelf() throws IOException {
    String stat = Files.readString(Path.of("/proc/self/stat"));
    return Long.parseLong(stat.substring(stat.lastIndexOf(')') + 2).split(" ")[19]);
  }

  /**
   * Of a process that {@code /proc} shows. One that is gone, or of which the kernel does not tell us
   * the namespace, counts as one of ours.
   */
  static ProcessKey of(ProcessIdentity process) {
    long ours = self().namespace();
    try {
      long namespace = namespace(Path.of("/proc", Integer.toString(process.pid()), "ns", "pid"));
      if (namespace != ours) {
        Map<String, String> status = ProcFs.status(process.pid());
        String[] pids = status.getOrDefault("NSpid", "").split("\\s+");
        if (process.stat().isPresent()) {
          return new ProcessKey(
              namespace, Integer.parseInt(pids[pids.length - 1]), process.startTicks());
        }
      }
    } catch (NoSuchFileException gone) {
      // Nobody can be at it any more.
    } catch (IOException notTold) {
      // Where one controller is not told, another one that runs as the same user is not either.
    } catch (NumberFormatException e) {
      throw new UncheckedIOException(
          new IOException("/proc/%d/status cannot be read".formatted(process.pid()), e));
    }
    return new ProcessKey(ours, process.pid(), process.startTicks());
  }

  private static long namespace(Path link) throws IOException {
    String target = Files.readSymbolicLink(link).toString();
    Matcher form = LINK.matcher(target);
    if (!form.matches()) {
      throw new IOException(link + " leads to " + target);
    }
    return Long.parseLong(form.group(1));
  }
}
