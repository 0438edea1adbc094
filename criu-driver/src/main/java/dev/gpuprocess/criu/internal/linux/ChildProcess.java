package dev.gpuprocess.criu.internal.linux;

import dev.gpuprocess.internal.linux.ChildStart;
import dev.gpuprocess.internal.linux.ExitStatus;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.PidDescriptor;
import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.internal.proc.Signals;
import dev.gpuprocess.internal.text.NativePath;
import dev.gpuprocess.internal.time.Uninterrupted;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A child of this JVM that the JDK does not know. Only this class reaps it, so its pid cannot be
 * reused before and it can be signalled by its pid. No method but {@link #start} needs a descriptor
 * or {@code /proc}: they also work when no more files can be opened. Safe for use by several
 * threads.
 */
public final class ChildProcess {

  /** The number of the socket in a CRIU that is our child. */
  public static final int SOCKET = 3;

  /** The variable that names a configuration file, which could change the meaning of a request. */
  private static final String CONFIGURATION = "CRIU_CONFIG_FILE";

  private static final Logger LOG = LoggerFactory.getLogger(ChildProcess.class);
  private static final long LATE_PAUSE_NANOS = 100_000_000;

  private final int pid;
  private @Nullable ExitStatus exit;

  private ChildProcess(int pid) {
    this.pid = pid;
  }

  /**
   * Starts a program with exactly these descriptors. It has no terminal on which sudo could prompt
   * or a key could send it a signal.
   *
   * @param program an absolute path
   * @param arguments without the program's name
   * @param input becomes 0; {@link ChildStart#NOWHERE} for {@code /dev/null}
   * @param output becomes 1 and 2
   * @param numbered become {@link #SOCKET} and the numbers after it
   * @param mounts a file that identifies the mount namespace of the program; null for ours
   * @throws NativeCallException if it cannot be started
   */
  public static ChildProcess start(
      Path program,
      List<String> arguments,
      int input,
      int output,
      List<Integer> numbered,
      @Nullable Path mounts)
      throws NativeCallException {
    return new ChildProcess(
        ChildStart.start(
            mounts,
            program,
            words(program, arguments),
            ChildProcess::isInherited,
            descriptors(input, output, numbered)));
  }

  /** Starts a program in the session of this JVM; the parameters are those of {@link #start}. */
  public static ChildProcess startInThisSession(
      Path program,
      List<String> arguments,
      int input,
      int output,
      List<Integer> numbered,
      @Nullable Path mounts)
      throws NativeCallException {
    return new ChildProcess(
        ChildStart.startInThisSession(
            mounts,
            program,
            words(program, arguments),
            ChildProcess::isInherited,
            descriptors(input, output, numbered)));
  }

  /** Returns a child that another child has started for this JVM. */
  public static ChildProcess of(int pid) {
    return new ChildProcess(pid);
  }

  private static boolean isInherited(String variable) {
    return !variable.equals(CONFIGURATION);
  }

  private static List<byte[]> words(Path program, List<String> arguments) {
    return Stream.concat(
            Stream.of(NativePath.bytes(program)), arguments.stream().map(NativePath::encode))
        .toList();
  }

  private static List<Integer> descriptors(int input, int output, List<Integer> numbered) {
    List<Integer> all = new ArrayList<>(List.of(input, output, output));
    all.addAll(numbered);
    return all;
  }

  public int pid() {
    return pid;
  }

  /**
   * Reaps the process if it has exited.
   *
   * @return its exit status; empty while it runs
   */
  public synchronized Optional<ExitStatus> reap() throws NativeCallException {
    if (exit == null) {
      exit = PidDescriptor.reapIfEnded(pid).orElse(null);
    }
    return Optional.ofNullable(exit);
  }

  /**
   * Reaps the process in the background once it exits; otherwise it would stay a zombie. A stopped
   * process is continued, so that it can exit.
   */
  public void reapLater() throws NativeCallException {
    if (reap().isPresent()) {
      return;
    }
    Thread reaper =
        new Thread(
            () -> {
              try {
                while (reap().isEmpty()) {
                  boolean unused = resume();
                  Uninterrupted.pause(LATE_PAUSE_NANOS);
                }
              } catch (NativeCallException e) {
                LOG.debug("process {} cannot be reaped", pid, e);
              }
            },
            "gpuprocess-reaper-" + pid);
    reaper.setDaemon(true);
    try {
      reaper.start();
    } catch (OutOfMemoryError e) {
      LOG.warn("process {} is not reaped before this JVM exits: no thread can be started", pid, e);
    }
  }

  /**
   * Sends SIGKILL.
   *
   * @return false if the process has exited
   */
  public boolean kill() throws NativeCallException {
    return signal(Signals.SIGKILL);
  }

  /**
   * Sends SIGTERM.
   *
   * @return false if the process has exited
   */
  public boolean terminate() throws NativeCallException {
    return signal(Signals.SIGTERM);
  }

  /**
   * Sends SIGCONT.
   *
   * @return false if the process has exited
   */
  public boolean resume() throws NativeCallException {
    return signal(Signals.SIGCONT);
  }

  private synchronized boolean signal(int number) throws NativeCallException {
    return reap().isEmpty() && Processes.signalChild(pid, number);
  }
}
