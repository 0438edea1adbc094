package dev.gpuprocess.criu.internal.process;

import static dev.gpuprocess.criu.internal.os.LibC.check;

import dev.gpuprocess.criu.internal.os.Deadline;
import dev.gpuprocess.criu.internal.os.ExitStatus;
import dev.gpuprocess.criu.internal.os.LibC;
import dev.gpuprocess.criu.internal.os.NativeCallException;
import dev.gpuprocess.criu.internal.os.Packet;
import dev.gpuprocess.criu.internal.os.PacketSocket;
import dev.gpuprocess.criu.internal.os.Poll;
import dev.gpuprocess.criu.internal.os.Posix;
import dev.gpuprocess.criu.internal.os.Spawn;
import dev.gpuprocess.criu.internal.os.TailBuffer;
import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.process.Processes;
import dev.gpuprocess.process.ProcessIdentity;
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
 *
 * <p>Where a command such as sudo runs CRIU, our child is that command, and CRIU is whoever sends
 * messages over the socket: the kernel says with each of them who that is.
 */
public final class CriuProcess implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger(CriuProcess.class);

  private static final int OUTPUT_LIMIT = 16 << 10;

  public static final Duration REAP_LIMIT = Duration.ofSeconds(5);
  private static final long REAP_PAUSE_NANOS = 200_000;
  private static final long LATE_PAUSE_NANOS = 100_000_000;

  private final CriuCommand command;
  private final boolean errand;
  private final int child;
  private final @Nullable ProcessIdentity identity;
  private final PacketSocket socket;
  private final int output;
  private final TailBuffer printed = new TailBuffer(OUTPUT_LIMIT);
  private final byte[] chunk = new byte[4096];
  private final Poll poll = new Poll(3);
  private boolean outputOpen = true;
  private @Nullable ProcessIdentity criu;
  private @Nullable ExitStatus exit;
  private boolean outlived;

  private CriuProcess(CriuCommand command, boolean errand, int child, int socket, int output) {
    this.command = command;
    this.errand = errand;
    this.child = child;
    this.identity = ProcessIdentity.of(child).orElse(null);
    this.socket = new PacketSocket(socket);
    this.output = output;
  }

  /**
   * Starts CRIU.
   *
   * @param inherited what it has open from the number after its socket on; nothing, unless it is
   *     started directly
   * @throws NativeCallException when it cannot be started; nothing is left open then
   * @throws dev.gpuprocess.error.ProcessUnreadableException when it cannot be looked at; it has
   *     been ended then, and nothing is left open
   */
  public static CriuProcess start(CriuCommand command, List<Integer> inherited)
      throws NativeCallException {
    return start(command, inherited, false);
  }

  /** Starts one that does something for us as root; nobody is sent on an errand to end it. */
  static CriuProcess startErrand(CriuCommand command) throws NativeCallException {
    return start(command, List.of(), true);
  }

  private static CriuProcess start(CriuCommand command, List<Integer> inherited, boolean errand)
      throws NativeCallException {
    CriuCommand readable = command.withReadableFiles();
    int[] sockets = {-1, -1};
    int[] pipe = {-1, -1};
    List<Integer> copies = new ArrayList<>();
    OptionalInt started = OptionalInt.empty();
    CriuProcess process = null;
    try {
      sockets = LibC.packetSockets();
      pipe = LibC.pipe();
      if (!command.direct()) {
        new PacketSocket(sockets[0]).askForSenders();
      }
      // Only our end: CRIU must not lose what it prints.
      check(LibC.functions().fcntl(pipe[0], LibC.F_SETFL, LibC.O_NONBLOCK), "fcntl");
      // Copies above the child's numbers, which a low number of ours would be in the way of.
      int above = Spawn.SOCKET + 1 + inherited.size();
      copies.add(copy(pipe[1], above));
      copies.add(copy(sockets[1], above));
      for (int descriptor : inherited) {
        copies.add(copy(descriptor, above));
      }
      int pid = spawn(readable, copies);
      started = OptionalInt.of(pid);
      LOG.debug("started {} as {}", command, pid);
      process = new CriuProcess(command, errand, pid, sockets[0], pipe[0]);
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

  /**
   * Starts the command.
   *
   * @param copies the output, the socket, and what is inherited
   */
  private static int spawn(CriuCommand command, List<Integer> copies) throws NativeCallException {
    return command.direct()
        ? Spawn.start(
            command.program(), command.arguments(), copies.get(0), copies.subList(1, copies.size()))
        : Spawn.start(
            command.program(), command.arguments(), copies.get(1), copies.get(0), List.of());
  }

  /** Waits for one that has lost its socket, and ends of that. */
  private static void reapUnheard(int pid) throws NativeCallException {
    Deadline deadline = Deadline.after(REAP_LIMIT);
    while (Posix.reap(pid).isEmpty() && !deadline.passed()) {
      LockSupport.parkNanos(REAP_PAUSE_NANOS);
    }
  }

  /** For a child that we could not end: when it does end, it would stay a zombie of ours. */
  private static void reapLater(int child) {
    Thread reaper =
        new Thread(
            () -> {
              try {
                while (Posix.reap(child).isEmpty()) {
                  LockSupport.parkNanos(LATE_PAUSE_NANOS);
                }
              } catch (NativeCallException e) {
                LOG.debug("process {} cannot be reaped", child, e);
              }
            },
            "gpuprocess-reaper-" + child);
    reaper.setDaemon(true);
    reaper.start();
  }

  private static int copy(int descriptor, int above) throws NativeCallException {
    return check(
        LibC.functions().fcntl(descriptor, LibC.F_DUPFD_CLOEXEC, above),
        "copy of descriptor " + descriptor);
  }

  CriuCommand command() {
    return command;
  }

  boolean isErrand() {
    return errand;
  }

  /** Our child: CRIU, or the command that runs it. */
  public int child() {
    return child;
  }

  /** Our child; empty when it had already ended when we looked. */
  Optional<ProcessIdentity> identity() {
    return Optional.ofNullable(identity);
  }

  /** CRIU itself; empty when it has not said anything yet and is not our child. */
  Optional<ProcessIdentity> criu() {
    return command.direct() ? identity() : Optional.ofNullable(criu);
  }

  /**
   * Sends one message.
   *
   * @return false when CRIU is gone
   */
  public boolean send(byte[] message) throws NativeCallException {
    return socket.send(message);
  }

  /**
   * Waits until there is something to receive, and reads what CRIU prints meanwhile.
   *
   * @param wakeup a descriptor that ends the wait too when it can be read; -1 for none
   * @return false when nothing came in this time
   */
  public boolean await(int millis, int wakeup) throws NativeCallException {
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
  public Optional<Packet> receive() throws NativeCallException {
    Optional<Packet> packet = socket.receive();
    if (criu == null && packet.isPresent() && packet.get().sender() > 1) {
      criu = ProcessIdentity.of(packet.get().sender()).orElse(null);
    }
    return packet;
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
  public void hangUp() {
    // Fails only when CRIU is gone already, and then there is nobody to tell.
    if (!socket.hangUp()) {
      LOG.debug("{} had hung up", child);
    }
  }

  /**
   * Waits for CRIU to end by itself, and reaps our child.
   *
   * @return empty when it still runs
   */
  public Optional<ExitStatus> awaitExit(Deadline deadline) throws NativeCallException {
    while (!hasEnded()) {
      drain();
      if (deadline.passed()) {
        return Optional.empty();
      }
      letGoOn();
      LockSupport.parkNanos(REAP_PAUSE_NANOS);
    }
    drain();
    return Optional.ofNullable(exit);
  }

  /**
   * Sudo stops itself when what it runs is stopped, and would not see its end. Nobody else stops
   * what was started a moment ago.
   */
  private void letGoOn() {
    if (command.direct() || identity == null) {
      return;
    }
    try {
      if (Processes.stat(identity).filter(ProcStat::isStopped).isPresent()) {
        Posix.resume(identity);
      }
    } catch (NativeCallException | ProcessUnreadableException e) {
      LOG.debug("process {} stays stopped", child, e);
    }
  }

  /**
   * Whether CRIU is dead, and our child reaped. What it sent before may still be to be received.
   * Somebody may have killed sudo and left CRIU at work.
   */
  boolean hasEnded() throws NativeCallException {
    if (exit == null) {
      exit = Posix.reap(child).map(this::asOfCriu).orElse(null);
    }
    return exit != null && (criu == null || !criu.isAlive());
  }

  /** Shells tell in their exit code which signal has ended what they ran. */
  private ExitStatus asOfCriu(ExitStatus status) {
    return command.direct() ? status : status.throughShell();
  }

  /**
   * Ends CRIU now, and reaps our child.
   *
   * @return {@link ExitStatus#STILL_RUNS} when it could not be ended
   */
  ExitStatus kill() throws NativeCallException {
    return kill(CriuKill.alone(this));
  }

  /** The same with more than CRIU, which is found out before it is killed. */
  ExitStatus kill(CriuKill kill) throws NativeCallException {
    hangUp();
    if (hasEnded()) {
      drain();
      return exit == null ? ExitStatus.UNKNOWN : exit;
    }
    if (outlived) {
      return ExitStatus.STILL_RUNS;
    }
    kill.run();
    Optional<ExitStatus> status = awaitExit(Deadline.after(REAP_LIMIT));
    outlived = status.isEmpty();
    return status.orElse(ExitStatus.STILL_RUNS);
  }

  /** What it printed on stdout and stderr, the last 16 KiB of it. */
  public String output() {
    return printed.text();
  }

  @Override
  public void close() throws NativeCallException {
    try {
      ExitStatus status = kill();
      LOG.debug("{} ended: {}", child, status);
      if (outlived) {
        reapLater(child);
      }
    } finally {
      socket.close();
      LibC.close(output);
    }
  }
}
