package dev.gpuprocess.criu;

import java.io.IOException;
import java.io.OutputStream;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.locks.LockSupport;
import org.apache.commons.exec.CommandLine;
import org.apache.commons.exec.DaemonExecutor;
import org.apache.commons.exec.ExecuteException;
import org.apache.commons.exec.ExecuteResultHandler;
import org.apache.commons.exec.Executor;
import org.apache.commons.exec.ProcessDestroyer;
import org.apache.commons.exec.PumpStreamHandler;

/**
 * A command that leads to CRIU, perhaps through {@code sudo} or a wrapper, in a session of its own.
 * It has nothing to read; what it prints is kept.
 */
final class CliProcess implements AutoCloseable {

  /**
   * Replaces itself by the command, which has then no terminal: no key pressed there ends CRIU or
   * what it restores, and sudo cannot ask. Nor is it in our process group, from which sudo hands no
   * signal on.
   */
  private static final String OWN_SESSION = "setsid";

  private static final int OUTPUT_LIMIT = 16 << 10;
  private static final int SIGNALLED = 128;
  private static final int LAST_SIGNAL = 64;
  private static final Duration PUMP_LIMIT = Duration.ofSeconds(1);
  private static final long PAUSE_NANOS = 200_000;

  private final Process process;
  private final CompletableFuture<Integer> drained;
  private final Printed printed;
  private final int pidfd;

  private CliProcess(Process process, CompletableFuture<Integer> drained, Printed printed)
      throws NativeCallException {
    this.process = process;
    this.drained = drained;
    this.printed = printed;
    this.pidfd = pidfd(pid());
  }

  /** -1 when it has ended already, or the kernel has no such thing: then we look now and then. */
  private static int pidfd(int pid) throws NativeCallException {
    try {
      return LibC.pidfdOpen(pid);
    } catch (NativeCallException e) {
      if (e.errno() == LibC.ESRCH || e.errno() == LibC.ENOSYS) {
        return -1;
      }
      throw e;
    }
  }

  /**
   * Starts the command.
   *
   * @param command its arguments, each as the program shall see it
   * @throws IOException when it cannot be started
   */
  static CliProcess start(List<String> command) throws IOException {
    CommandLine line = new CommandLine(OWN_SESSION);
    command.forEach(argument -> line.addArgument(argument, false));
    Printed printed = new Printed();
    PumpStreamHandler streams = new PumpStreamHandler(printed, printed);
    streams.setStopTimeout(PUMP_LIMIT);
    Running running = new Running();
    Executor executor = DaemonExecutor.builder().setExecuteStreamHandler(streams).get();
    executor.setExitValues(null); // all of them are for us to judge
    executor.setProcessDestroyer(running);
    executor.execute(line, environment(), running);
    try {
      return new CliProcess(running.started.join(), running.ended, printed);
    } catch (CompletionException e) {
      throw new IOException(String.valueOf(rootCause(e).getMessage()), e);
    }
  }

  private static Throwable rootCause(Throwable thrown) {
    Throwable cause = thrown.getCause();
    return cause == null ? thrown : rootCause(cause);
  }

  /** Ours, without what CRIU would hand on to the script as its own. */
  private static Map<String, String> environment() {
    Map<String, String> variables = new TreeMap<>(System.getenv());
    variables.keySet().removeIf(name -> name.startsWith("CRTOOLS_"));
    return variables;
  }

  /** The command's own, not CRIU's unless it has become CRIU. */
  int pid() {
    return Math.toIntExact(process.pid());
  }

  /** What to poll: readable once it has ended; -1 for nothing. */
  int descriptor() {
    return pidfd;
  }

  /** Asks it to end with a SIGTERM, which sudo hands on to what it runs, with the right to. */
  void terminate() {
    process.toHandle().destroy();
  }

  boolean isRunning() {
    return process.isAlive();
  }

  /**
   * Waits for it to end by itself.
   *
   * @return empty when it still runs
   */
  Optional<ExitStatus> awaitExit(Deadline deadline) {
    while (process.isAlive()) {
      if (deadline.passed()) {
        return Optional.empty();
      }
      LockSupport.parkNanos(PAUSE_NANOS);
    }
    Deadline drain = Deadline.after(PUMP_LIMIT.multipliedBy(3));
    while (!drained.isDone() && !drain.passed()) {
      LockSupport.parkNanos(PAUSE_NANOS);
    }
    return Optional.of(status(process.exitValue()));
  }

  /** The JDK, shells and sudo all say so when a signal ended it. */
  private static ExitStatus status(int value) {
    return value > SIGNALLED && value <= SIGNALLED + LAST_SIGNAL
        ? new ExitStatus(-1, value - SIGNALLED)
        : new ExitStatus(value, 0);
  }

  /** What it printed on stdout and stderr, the last 16 KiB of it. */
  String output() {
    return printed.text();
  }

  @Override
  public void close() {
    LibC.close(pidfd);
  }

  /** Hears from the thread of Commons Exec that waits for the command. */
  private static final class Running implements ProcessDestroyer, ExecuteResultHandler {

    final CompletableFuture<Process> started = new CompletableFuture<>();
    final CompletableFuture<Integer> ended = new CompletableFuture<>();

    @Override
    public boolean add(Process process) {
      return started.complete(process);
    }

    @Override
    public boolean remove(Process process) {
      return true;
    }

    @Override
    public int size() {
      return 1;
    }

    @Override
    public void onProcessComplete(int exitValue) {
      ended.complete(exitValue);
    }

    @Override
    public void onProcessFailed(ExecuteException e) {
      started.completeExceptionally(e);
      ended.completeExceptionally(e);
    }
  }

  /** Keeps the end of what is printed. */
  private static final class Printed extends OutputStream {

    private final TailBuffer tail = new TailBuffer(OUTPUT_LIMIT);

    @Override
    public void write(int b) {
      write(new byte[] {(byte) b}, 0, 1);
    }

    @Override
    public synchronized void write(byte[] bytes, int offset, int length) {
      byte[] part = new byte[length];
      System.arraycopy(bytes, offset, part, 0, length);
      tail.add(part, length);
    }

    synchronized String text() {
      return tail.text();
    }
  }
}
