package dev.gpuprocess.internal.launch;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.internal.linux.ChildStart;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.PacketSocketPair;
import dev.gpuprocess.internal.linux.PidDescriptor;
import dev.gpuprocess.internal.proc.Signals;
import dev.gpuprocess.internal.text.NativePath;
import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;

/**
 * The guard of a launched process: a program that kills the process and its session when this JVM
 * exits, for whatever reason, and that sends signals to all of them. It exits when all of them have
 * exited. Safe for use by several threads.
 */
final class Guard {

  private static final byte READY = 'r';
  private static final byte TERMINATE = 't';
  private static final byte KILL = 'k';
  private static final byte DETACH = 'l';

  /** The time that a killed guard may take to exit. */
  private static final Duration KILL_LIMIT = Duration.ofSeconds(10);

  private final PacketSocketPair socket;
  private final PidDescriptor process;
  private boolean exited;

  private Guard(PacketSocketPair socket, PidDescriptor process) {
    this.socket = socket;
    this.process = process;
  }

  /**
   * Starts a guard.
   *
   * @param root the process
   * @param held its pidfd; the process may have exited, but is not reaped
   * @param survivesExit whether the process stays alive when this JVM exits
   * @param entry the process's file in the journal; the guard removes it after it has killed the
   *     process because this JVM exited. If the process survives: the file for its exit status
   * @throws IOException when it cannot be started, or is killed before it answers
   * @throws OperationTimedOutException when it does not answer in time
   */
  static Guard start(
      ProcessIdentity root, PidDescriptor held, boolean survivesExit, Path entry, Duration limit)
      throws IOException {
    Path program = NativeFile.installed(NativeFile.LAUNCHER);
    List<byte[]> arguments =
        List.of(
            NativeFile.argument("gpuprocess-guard"),
            NativeFile.argument("guard"),
            NativeFile.argument(Integer.toString(root.pid())),
            NativeFile.argument(Long.toString(root.startTicks())),
            NativeFile.argument(survivesExit ? "no" : "yes"),
            NativePath.bytes(entry));
    PacketSocketPair socket = PacketSocketPair.make();
    try {
      int pid =
          NativeFile.start(
              program,
              arguments,
              variable -> false,
              List.of(socket.theirs(), ChildStart.NOWHERE, ChildStart.NOWHERE, held.number()),
              socket);
      Guard guard = new Guard(socket, PidDescriptor.ofChild(pid));
      Optional<byte[]> answer = socket.receive(limit);
      if (answer.isPresent() && answer.get().length == 1 && answer.get()[0] == READY) {
        return guard;
      }
      boolean unused = guard.awaitEnd(Duration.ZERO);
      if (answer.isEmpty()) {
        throw new OperationTimedOutException(
            "the guard of process %s did not begin within %s"
                .formatted(root.pid(), Printable.of(limit)),
            Failure.of("guard", root.pid()));
      }
      throw new IOException("the guard of process %s was killed".formatted(root.pid()));
    } catch (IOException | RuntimeException | Error e) {
      // Otherwise a guard that was started takes the closed socket for the exit of this JVM.
      boolean unused = socket.send(DETACH);
      socket.close();
      throw e;
    }
  }

  /** Waits until the guard or the root has exited. */
  void awaitEndOr(PidDescriptor root) throws NativeCallException {
    process.awaitEndOr(root);
  }

  /**
   * Waits until it has exited, kills it at the end of the limit, and reaps it. To be called once.
   *
   * @return false if it was killed
   */
  boolean awaitEnd(Duration limit) throws NativeCallException {
    if (!process.awaitEnd(limit)) {
      boolean unused = process.signal(Signals.SIGKILL);
      if (!process.awaitEnd(KILL_LIMIT)) {
        release(); // a zombie stays once the kernel lets it exit
        return false;
      }
    }
    return reap();
  }

  /**
   * Sends SIGTERM to the process and its session.
   *
   * @return false if the guard has exited
   */
  boolean terminate() throws NativeCallException {
    return order(TERMINATE);
  }

  /**
   * Sends SIGKILL until the process and its session have exited.
   *
   * @return false if the guard has exited
   */
  boolean kill() throws NativeCallException {
    return order(KILL);
  }

  /** Makes the guard exit without touching the process. */
  void detach() throws NativeCallException {
    boolean unused = order(DETACH);
  }

  private synchronized boolean order(byte order) throws NativeCallException {
    return !exited && socket.send(order);
  }

  /**
   * Waits until it has exited, without a limit, and reaps it. To be called once.
   *
   * @return false if it was killed or failed, so that processes of the session may live
   */
  boolean reap() throws NativeCallException {
    process.awaitEnd();
    try {
      return process.reap().filter(status -> status.code() != 0).isEmpty();
    } finally {
      release();
    }
  }

  private synchronized void release() {
    exited = true;
    socket.close();
    process.close();
  }
}
