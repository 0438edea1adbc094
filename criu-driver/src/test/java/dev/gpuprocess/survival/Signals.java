package dev.gpuprocess.survival;

import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import jnr.posix.POSIX;
import jnr.posix.POSIXFactory;

/** Signals to processes that are known by pid and start time, and to no others. */
final class Signals {

  static final int KILL = 9;
  static final int USER_1 = 10;
  static final int CONTINUE = 18;
  static final int STOP = 19;

  private static final POSIX LIBRARY = POSIXFactory.getNativePOSIX();

  private Signals() {}

  /** Sends a signal, unless the process is gone. */
  static void send(ProcessIdentity process, int signal) {
    if (process.pid() <= 1 || process.pid() == ProcessHandle.current().pid()) {
      throw new IllegalArgumentException("never signals " + process);
    }
    if (process.isAlive()) {
      LIBRARY.kill(process.pid(), signal);
    }
  }

  /** Ends this JVM like a power failure: no shutdown hook runs. */
  static void killSelf() {
    LIBRARY.kill(LIBRARY.getpid(), KILL);
    throw new IllegalStateException("a SIGKILL to oneself does not return");
  }

  /**
   * The CRIU that is at work on a process: its tracer while it dumps, its parent while it restores.
   */
  static Optional<ProcessIdentity> criuOf(int pid) {
    return tracer(pid)
        .or(() -> ProcFs.stat(pid).map(ProcStat::parent))
        .filter(ProcFs::isCriu)
        .flatMap(ProcessIdentity::of);
  }

  /** The CRIU that is restoring a process. */
  static Optional<ProcessIdentity> restoringCriuOf(int pid) {
    return ProcFs.stat(pid)
        .map(ProcStat::parent)
        .filter(ProcFs::isCriu)
        .flatMap(ProcessIdentity::of);
  }

  /**
   * The CRIUs at work below a directory: they were started with it in their environment, and have
   * had no request yet, since they overwrite their environment with what they do; or they have
   * something open there.
   */
  static List<Long> criuAt(Path directory) {
    return ProcessHandle.allProcesses()
        .map(ProcessHandle::pid)
        .filter(ProcFs::isCriu)
        .filter(pid -> isNamed(environmentOf(pid), directory) || hasOpen(pid, directory))
        .toList();
  }

  private static boolean isNamed(String environment, Path directory) {
    return Arrays.stream(environment.split("\0"))
        .map(variable -> variable.substring(variable.indexOf('=') + 1))
        .anyMatch(value -> value.startsWith("/") && Path.of(value).startsWith(directory));
  }

  private static boolean hasOpen(long pid, Path directory) {
    try (Stream<Path> descriptors = Files.list(Path.of("/proc/" + pid + "/fd"))) {
      return descriptors.anyMatch(each -> target(each).startsWith(directory));
    } catch (NoSuchFileException gone) {
      return false;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static Path target(Path descriptor) {
    try {
      return Files.readSymbolicLink(descriptor);
    } catch (NoSuchFileException closed) {
      return descriptor;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Empty also for a process that is being torn down, whose memory is gone (ESRCH). */
  private static String environmentOf(long pid) {
    try {
      return ProcFs.read(pid, "environ").orElse("");
    } catch (ProcessUnreadableException e) {
      if (ProcFs.read(pid, "statm").orElse("0 ").startsWith("0 ")) {
        return "";
      }
      throw e;
    }
  }

  private static Optional<Integer> tracer(int pid) {
    return ProcFs.read(pid, "status")
        .flatMap(text -> text.lines().filter(line -> line.startsWith("TracerPid:")).findFirst())
        .map(line -> Integer.valueOf(line.substring(line.indexOf(':') + 1).strip()))
        .filter(tracer -> tracer > 1);
  }
}
