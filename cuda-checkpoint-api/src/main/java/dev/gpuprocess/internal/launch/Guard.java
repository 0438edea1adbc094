package dev.gpuprocess.internal.launch;

import dev.gpuprocess.internal.linux.ChildStart;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.PacketSocketPair;
import dev.gpuprocess.internal.linux.PidDescriptor;
import dev.gpuprocess.internal.proc.Signals;
import dev.gpuprocess.internal.text.NativePath;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;

/**
 * The guard that ends a launched process with this JVM, however this JVM ends, and that signals all
 * of it. It ends when all of the process has ended. Safe for use by several threads.
 */
final class Guard {

  private static final byte READY = 'r';
  private static final byte TERMINATE = 't';
  private static final byte KILL = 'k';
  private static final byte LET_GO = 'l';

  private final PacketSocketPair socket;
  private final PidDescriptor process;
  private boolean ended;

  private Guard(PacketSocketPair socket, PidDescriptor process) {
    this.socket = socket;
    this.process = process;
  }

  /**
   * Starts one.
   *
   * @param root the root of the process
   * @param held the same, which may have ended and not been reaped
   * @param survivesExit whether the process lives on when this JVM ends
   * @param entry the journal's file about the process, which the guard removes when it has ended
   *     the process because this JVM was gone
   * @throws IOException when it cannot be started, or does not answer in time
   */
  static Guard start(
      ProcessIdentity root, PidDescriptor held, boolean survivesExit, Path entry, Duration limit)
      throws IOException {
    Path program = NativeFiles.path(NativeFiles.JOB);
    List<byte[]> arguments =
        List.of(
            ascii("gpuprocess-guard"),
            ascii("guard"),
            ascii(Integer.toString(root.pid())),
            ascii(Long.toString(root.startTicks())),
            ascii(survivesExit ? "no" : "yes"),
            NativePath.bytes(entry));
    PacketSocketPair socket = PacketSocketPair.make();
    try {
      int pid =
          ChildStart.start(
              program,
              arguments,
              variable -> false,
              List.of(socket.theirs(), ChildStart.NOWHERE, ChildStart.NOWHERE, held.number()));
      socket.closeTheirs();
      Guard guard = new Guard(socket, PidDescriptor.open(pid));
      Optional<byte[]> said = socket.receive(limit);
      if (said.isEmpty() || said.get().length != 1 || said.get()[0] != READY) {
        boolean unused = guard.process.signal(Signals.SIGKILL);
        unused = guard.reap();
        throw new IOException("the guard of process %s did not begin".formatted(root.pid()));
      }
      return guard;
    } catch (IOException | RuntimeException e) {
      // One that is there takes the end of this connection for that of this JVM.
      boolean unused = socket.send(LET_GO);
      socket.close();
      throw e;
    }
  }

  private static byte[] ascii(String text) {
    return text.getBytes(StandardCharsets.US_ASCII);
  }

  /** Waits until it has ended, or the root has. */
  void awaitEndOr(PidDescriptor root) throws NativeCallException {
    process.awaitEndOr(root);
  }

  /**
   * Waits until it has ended. One that does not end in time is killed.
   *
   * @return false when it was killed
   */
  boolean awaitEnd(Duration limit) throws NativeCallException {
    if (!process.awaitEnd(limit)) {
      boolean unused = process.signal(Signals.SIGKILL);
    }
    return reap();
  }

  /**
   * Sends SIGTERM to all of the job.
   *
   * @return false when the guard has ended
   */
  boolean terminate() throws NativeCallException {
    return order(TERMINATE);
  }

  /**
   * Sends SIGKILL until nothing of the process is left.
   *
   * @return false when the guard has ended
   */
  boolean kill() throws NativeCallException {
    return order(KILL);
  }

  /** Has it end and leave the process alone. */
  void letGo() throws NativeCallException {
    boolean unused = order(LET_GO);
  }

  private synchronized boolean order(byte order) throws NativeCallException {
    return !ended && socket.send(order);
  }

  /**
   * Waits until it has ended and lets its pid go. To be called once.
   *
   * @return false when somebody has killed it
   */
  boolean reap() throws NativeCallException {
    process.awaitEnd();
    synchronized (this) {
      ended = true;
      socket.close();
    }
    boolean byItself = process.reap().filter(status -> status.signal() > 0).isEmpty();
    process.close();
    return byItself;
  }
}
