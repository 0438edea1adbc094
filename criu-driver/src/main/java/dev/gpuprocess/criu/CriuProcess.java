package dev.gpuprocess.criu;

import static dev.gpuprocess.criu.LibC.check;

import dev.gpuprocess.process.ProcessIdentity;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One {@code criu swrk} and the socket to it. Closing ends and reaps it, whatever happened before.
 * For one thread.
 */
final class CriuProcess implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger(CriuProcess.class);

  /**
   * Where CRIU looks for plugins: a directory that has none, and where nobody can put one that CRIU
   * would then load as root. Its entries are numbers.
   */
  static final String NO_PLUGINS = "/proc/self/fdinfo";

  /**
   * Without it CRIU obeys {@code /etc/criu/default.conf} and {@code ~/.criu/default.conf}, where a
   * {@code leave-running} or {@code track-mem} would change what a request means.
   */
  static final String NO_DEFAULTS = "--no-default-config";

  private static final int OUTPUT_LIMIT = 16 << 10;

  static final Duration REAP_LIMIT = Duration.ofSeconds(5);
  private static final long REAP_PAUSE_NANOS = 200_000;

  private final int pid;
  private final @Nullable ProcessIdentity identity;
  private final PacketSocket socket;
  private final int output;
  private final TailBuffer printed = new TailBuffer(OUTPUT_LIMIT);
  private final byte[] chunk = new byte[4096];
  private final Poll poll = new Poll(3);
  private boolean outputOpen = true;
  private @Nullable ExitStatus exit;

  private CriuProcess(int pid, int socket, int output) {
    this.pid = pid;
    this.identity = ProcessIdentity.of(pid).orElse(null);
    this.socket = new PacketSocket(socket);
    this.output = output;
  }

  /**
   * Starts CRIU.
   *
   * @param inherited what it has open from the number after its socket on
   * @throws NativeCallException when it cannot be started; nothing is left open then
   * @throws dev.gpuprocess.error.ProcessUnreadableException when it cannot be looked at; it has
   *     been ended then, and nothing is left open
   */
  static CriuProcess start(Path criu, List<Integer> inherited) throws NativeCallException {
    int[] sockets = {-1, -1};
    int[] pipe = {-1, -1};
    List<Integer> copies = new ArrayList<>();
    OptionalInt started = OptionalInt.empty();
    CriuProcess process = null;
    try {
      sockets = LibC.packetSockets();
      pipe = LibC.pipe();
      // Only our end: CRIU must not lose what it prints.
      check(LibC.functions().fcntl(pipe[0], LibC.F_SETFL, LibC.O_NONBLOCK), "fcntl");
      // Copies above the child's numbers, which a low number of ours would be in the way of.
      int above = Spawn.SOCKET + 1 + inherited.size();
      copies.add(copy(pipe[1], above));
      copies.add(copy(sockets[1], above));
      for (int descriptor : inherited) {
        copies.add(copy(descriptor, above));
      }
      int pid =
          Spawn.start(
              criu,
              List.of(NO_DEFAULTS, "-L", NO_PLUGINS, "swrk", Integer.toString(Spawn.SOCKET)),
              copies.get(0),
              copies.subList(1, copies.size()));
      started = OptionalInt.of(pid);
      LOG.debug("started {} as {}", criu, pid);
      process = new CriuProcess(pid, sockets[0], pipe[0]);
      return process;
    } finally {
      LibC.close(sockets[1]);
      LibC.close(pipe[1]);
      copies.forEach(LibC::close);
      if (process == null) {
        LibC.close(sockets[0]);
        LibC.close(pipe[0]);
        if (started.isPresent()) {
          reapUnheard(started.getAsInt());
        }
      }
    }
  }

  /** Waits for one that has lost its socket, and ends of that. */
  private static void reapUnheard(int pid) throws NativeCallException {
    Deadline deadline = Deadline.after(REAP_LIMIT);
    while (Posix.reap(pid).isEmpty() && !deadline.passed()) {
      LockSupport.parkNanos(REAP_PAUSE_NANOS);
    }
  }

  private static int copy(int descriptor, int above) throws NativeCallException {
    return check(
        LibC.functions().fcntl(descriptor, LibC.F_DUPFD_CLOEXEC, above),
        "copy of descriptor " + descriptor);
  }

  int pid() {
    return pid;
  }

  /** Who it is; empty when it had already ended when we looked. */
  Optional<ProcessIdentity> identity() {
    return Optional.ofNullable(identity);
  }

  /**
   * Sends one message.
   *
   * @return false when CRIU is gone
   */
  boolean send(byte[] message) throws NativeCallException {
    return socket.send(message);
  }

  /**
   * Waits until there is something to receive, and reads what CRIU prints meanwhile.
   *
   * @param wakeup a descriptor that ends the wait too when it can be read; -1 for none
   * @return false when nothing came in this time
   */
  boolean await(int millis, int wakeup) throws NativeCallException {
    if (!poll.await(millis, socket.descriptor(), outputOpen ? output : -1, wakeup)) {
      return false;
    }
    if (poll.isReady(1)) {
      drain();
    }
    return poll.isReady(0);
  }

  /**
   * Receives one message. Call after {@link #await} said that there is one.
   *
   * @return empty at the end of the conversation
   */
  Optional<Packet> receive() throws NativeCallException {
    return socket.receive();
  }

  private void drain() throws NativeCallException {
    while (outputOpen) {
      long count = LibC.functions().read(output, chunk, chunk.length);
      if (count > 0) {
        printed.add(chunk, (int) count);
      } else if (count == 0) {
        outputOpen = false;
      } else if (LibC.errno() == LibC.EAGAIN) {
        return;
      } else if (LibC.errno() != LibC.EINTR) {
        check(count, "read");
      }
    }
  }

  /** Ends the conversation: to CRIU, a request not yet answered is refused. */
  void hangUp() {
    // Fails only when CRIU is gone already, and then there is nobody to tell.
    if (!socket.hangUp()) {
      LOG.debug("criu {} had hung up", pid);
    }
  }

  /**
   * Waits for CRIU to end by itself, and reaps it.
   *
   * @return empty when it still runs
   */
  Optional<ExitStatus> awaitExit(Deadline deadline) throws NativeCallException {
    while (!hasEnded()) {
      drain();
      if (deadline.passed()) {
        return Optional.empty();
      }
      LockSupport.parkNanos(REAP_PAUSE_NANOS);
    }
    drain();
    return Optional.ofNullable(exit);
  }

  /** Whether CRIU is dead, and reaps it then. What it sent before may still be to be received. */
  boolean hasEnded() throws NativeCallException {
    if (exit == null) {
      exit = Posix.reap(pid).orElse(null);
    }
    return exit != null;
  }

  /** Ends CRIU now, and reaps it. */
  ExitStatus kill() throws NativeCallException {
    hangUp();
    if (exit == null && identity != null) {
      Posix.kill(identity);
    }
    return awaitExit(Deadline.after(REAP_LIMIT)).orElse(ExitStatus.UNKNOWN);
  }

  /** What it printed on stdout and stderr, the last 16 KiB of it. */
  String output() {
    return printed.text();
  }

  @Override
  public void close() throws NativeCallException {
    try {
      ExitStatus status = kill();
      LOG.debug("criu {} ended: {}", pid, status);
    } finally {
      socket.close();
      LibC.close(output);
    }
  }
}
