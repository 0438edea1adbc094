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
 * One {@code criu swrk} and the socket to it. Closing kills and reaps it, whatever happened before.
 * Not thread-safe.
 *
 * <p>If a command such as sudo runs CRIU, our child is that command, and CRIU is the process that
 * sends messages over the socket: the kernel attaches the sender's pid to each of them.
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
  private @Nullable ExitStatus outlived;
  private CriuCall.BeforeKill beforeKill = CriuCall.BeforeKill.NONE;

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
   * @param inherited descriptors that CRIU inherits, numbered from the one after its socket; empty
   *     unless CRIU is started directly
   * @throws NativeCallException if it cannot be started; nothing is left open
   * @throws dev.gpuprocess.error.ProcessUnreadableException if it cannot be examined; it has been
   *     ended, and nothing is left open
   */
  public static CriuProcess start(CriuCommand command, List<Integer> inherited)
      throws NativeCallException {
    return start(command, inherited, false);
  }

  /** Starts the CRIU of a {@link RootErrand}; no second errand is run to kill it. */
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
      // Only our end is non-blocking: CRIU must not lose what it prints.
      check(LibC.functions().fcntl(pipe[0], LibC.F_SETFL, LibC.O_NONBLOCK), "fcntl");
      // Copies numbered above those that the child uses, so that none gets in the way of another.
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
   * @param copies the output, the socket, and the inherited descriptors
   */
  private static int spawn(CriuCommand command, List<Integer> copies) throws NativeCallException {
    return command.direct()
        ? Spawn.start(
            command.program(), command.arguments(), copies.get(0), copies.subList(1, copies.size()))
        : Spawn.start(
            command.program(), command.arguments(), copies.get(1), copies.get(0), List.of());
  }

  /** Reaps a child that exits because its socket has been closed. */
  private static void reapUnheard(int pid) throws NativeCallException {
    Deadline deadline = Deadline.after(REAP_LIMIT);
    while (Posix.reap(pid).isEmpty() && !deadline.passed()) {
      LockSupport.parkNanos(REAP_PAUSE_NANOS);
    }
  }

  /**
   * Reaps a child that was not killed, which would otherwise stay a zombie once it exits; lets it
   * go on if it was stopped for that.
   */
  private void reapLater() {
    Thread reaper =
        new Thread(
            () -> {
              try {
                while (Posix.reap(child).isEmpty()) {
                  resume();
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

  /** The pid of our child: CRIU, or the command that runs it. */
  public int child() {
    return child;
  }

  /** Our child; empty if it had already been gone when we looked. */
  Optional<ProcessIdentity> identity() {
    return Optional.ofNullable(identity);
  }

  /** CRIU itself; empty if it is not our child and has not sent anything yet. */
  Optional<ProcessIdentity> criu() {
    return command.direct() ? identity() : Optional.ofNullable(criu);
  }

  /**
   * Sends one message.
   *
   * @return false if CRIU is gone
   */
  public boolean send(byte[] message) throws NativeCallException {
    return socket.send(message);
  }

  /**
   * Waits until there is something to receive, and reads what CRIU prints meanwhile.
   *
   * @param wakeup a descriptor that also ends the wait when it becomes readable; -1 for none
   * @return false if there is nothing to receive
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
   * Receives one message. To be called after {@link #await} has returned true.
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

  /** From now on it is killed only at a moment that this allows. */
  void killOnly(CriuCall.BeforeKill when) {
    beforeKill = when;
  }

  /** Ends the conversation; CRIU takes this as a refusal of a notification not yet answered. */
  public void hangUp() {
    // Fails only if CRIU is already gone.
    if (!socket.hangUp()) {
      LOG.debug("{} had hung up", child);
    }
  }

  /**
   * Waits for CRIU to exit by itself, and reaps our child.
   *
   * @return empty if it still runs
   */
  public Optional<ExitStatus> awaitExit(Deadline deadline) throws NativeCallException {
    while (!hasEnded()) {
      drain();
      if (deadline.passed()) {
        return Optional.empty();
      }
      resumeIfStopped();
      LockSupport.parkNanos(REAP_PAUSE_NANOS);
    }
    drain();
    return Optional.ofNullable(exit);
  }

  /**
   * Sudo stops itself when the command it runs is stopped, and would not notice its exit. Nobody
   * else would have stopped what was started a moment ago.
   */
  private void resumeIfStopped() {
    if (!command.direct()) {
      resume();
    }
  }

  private void resume() {
    if (identity == null) {
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
   * Whether CRIU is dead and our child is reaped. Messages that CRIU sent before may still be
   * waiting. Both are checked, because sudo may have been killed while CRIU works on.
   */
  boolean hasEnded() throws NativeCallException {
    if (exit == null) {
      exit = Posix.reap(child).map(this::asOfCriu).orElse(null);
    }
    return exit != null && (criu == null || !criu.isAlive());
  }

  /** A shell's exit code tells which signal killed the command it ran. */
  private ExitStatus asOfCriu(ExitStatus status) {
    return command.direct() ? status : status.throughShell();
  }

  /**
   * Kills CRIU, and reaps our child.
   *
   * @return {@link ExitStatus#STILL_RUNS} if it could not be killed, {@link ExitStatus#SPARED} if
   *     it may not be
   */
  ExitStatus kill() throws NativeCallException {
    return kill(CriuKill.alone(this));
  }

  /** Kills more than CRIU; what else there is to kill is determined before CRIU dies. */
  ExitStatus kill(CriuKill kill) throws NativeCallException {
    hangUp();
    if (hasEnded()) {
      drain();
      return exit == null ? ExitStatus.UNKNOWN : exit;
    }
    if (outlived != null) {
      return outlived;
    }
    Optional<ProcessIdentity> dumping = criu();
    if (dumping.isPresent() && !beforeKill.awaitMoment(dumping.get())) {
      outlived = ExitStatus.SPARED;
      return outlived;
    }
    kill.run();
    Optional<ExitStatus> status = awaitExit(Deadline.after(REAP_LIMIT));
    outlived = status.isPresent() ? null : ExitStatus.STILL_RUNS;
    return status.orElse(ExitStatus.STILL_RUNS);
  }

  /** The last 16 KiB of what it printed on stdout and stderr. */
  public String output() {
    return printed.text();
  }

  @Override
  public void close() throws NativeCallException {
    try {
      ExitStatus status = kill();
      LOG.debug("{} ended: {}", child, status);
      if (outlived != null) {
        reapLater();
      }
    } finally {
      socket.close();
      LibC.close(output);
    }
  }
}
