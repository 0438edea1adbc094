package dev.gpuprocess.criu.internal.process;

import static dev.gpuprocess.internal.linux.Libc.check;

import dev.gpuprocess.criu.internal.linux.ChildProcess;
import dev.gpuprocess.criu.internal.linux.TailBuffer;
import dev.gpuprocess.internal.linux.ChildStart;
import dev.gpuprocess.internal.linux.ExitStatus;
import dev.gpuprocess.internal.linux.FileSizeLimit;
import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.Packet;
import dev.gpuprocess.internal.linux.PacketSocket;
import dev.gpuprocess.internal.linux.Poll;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.report.ProcessIdentity;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A {@code criu swrk} and the socket to it. Closing kills and reaps it in any case. Not safe for
 * use by several threads.
 *
 * <p>If a command such as sudo runs CRIU, the child of this JVM is that command, and CRIU is the
 * process that sends messages over the socket: the kernel attaches the sender's pid to each of
 * them.
 */
public final class CriuProcess implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger(CriuProcess.class);

  private static final int OUTPUT_LIMIT = 16 << 10;

  private static final Duration REAP_LIMIT = Duration.ofSeconds(5);
  private static final long REAP_PAUSE_NANOS = 200_000;

  private final CriuCommand command;
  private final boolean errand;
  private final ChildProcess child;
  private final PacketSocket socket;
  private final int output;
  private final TailBuffer printed = new TailBuffer(OUTPUT_LIMIT);
  private final byte[] chunk = new byte[4096];
  private final Poll poll = new Poll(3);
  private boolean outputOpen = true;
  private @Nullable ProcessIdentity criu;
  private @Nullable ExitStatus outlived;
  private CriuCall.BeforeKill beforeKill = CriuCall.BeforeKill.NONE;

  private CriuProcess(
      CriuCommand command, boolean errand, ChildProcess child, int socket, int output) {
    this.command = command;
    this.errand = errand;
    this.child = child;
    this.socket = new PacketSocket(socket);
    this.output = output;
    // Read now, while descriptors are free: CRIU is to be killed later even if there are none.
    this.criu = command.direct() ? identify(child.pid()) : null;
  }

  /**
   * Starts CRIU.
   *
   * @param inherited descriptors that CRIU inherits, numbered from the one after its socket; empty
   *     unless CRIU is started directly
   * @param terminal the terminal for a job that CRIU restores; null for none, and unless CRIU is
   *     started directly
   * @throws NativeCallException if it cannot be started; nothing is left open
   */
  public static CriuProcess start(
      CriuCommand command, List<Integer> inherited, @Nullable JobTerminal terminal)
      throws NativeCallException {
    return start(command, inherited, terminal, false);
  }

  /** Starts the CRIU of a {@link RootErrand}; no second errand is run to kill it. */
  static CriuProcess startErrand(CriuCommand command) throws NativeCallException {
    return start(command, List.of(), null, true);
  }

  private static CriuProcess start(
      CriuCommand command, List<Integer> inherited, @Nullable JobTerminal terminal, boolean errand)
      throws NativeCallException {
    int[] sockets = {-1, -1};
    int[] pipe = {-1, -1};
    boolean started = false;
    try {
      sockets = PacketSocket.pair();
      pipe = Libc.pipe();
      if (!command.direct()) {
        new PacketSocket(sockets[0]).askForSenders();
      }
      // Only the end of this JVM is non-blocking: CRIU must not lose output.
      check(Libc.functions().fcntl(pipe[0], Libc.F_SETFL, Libc.O_NONBLOCK), "fcntl");
      ChildProcess child =
          spawn(command.withReadableFiles(), sockets[1], pipe[1], inherited, terminal);
      started = true;
      LOG.debug("started {} as {}", command, child.pid());
      raiseLimits(command, child);
      return new CriuProcess(command, errand, child, sockets[0], pipe[0]);
    } finally {
      Libc.close(sockets[1]);
      Libc.close(pipe[1]);
      if (!started) {
        Libc.close(sockets[0]);
        Libc.close(pipe[0]);
      }
    }
  }

  /** A batch system may limit the size of files, and CRIU would be killed when it exceeds that. */
  private static void raiseLimits(CriuCommand command, ChildProcess child) {
    if (command.direct()) {
      try {
        FileSizeLimit.raise(child.pid());
      } catch (NativeCallException e) {
        LOG.debug("the limits of {} stay", child.pid(), e);
      }
    }
  }

  private static ChildProcess spawn(
      CriuCommand command,
      int socket,
      int output,
      List<Integer> inherited,
      @Nullable JobTerminal terminal)
      throws NativeCallException {
    boolean direct = command.direct();
    List<Integer> numbered = new ArrayList<>(direct ? List.of(socket) : List.of());
    numbered.addAll(inherited);
    if (terminal != null) {
      return terminal.start(command, output, numbered);
    }
    return ChildProcess.start(
        command.program(),
        command.arguments(),
        direct ? ChildStart.NOWHERE : socket,
        output,
        numbered,
        command.mounts());
  }

  CriuCommand command() {
    return command;
  }

  boolean isErrand() {
    return errand;
  }

  /** Returns the child of this JVM: CRIU, or the command that runs it. */
  ChildProcess child() {
    return child;
  }

  /** Returns the pid of the child. */
  public int pid() {
    return child.pid();
  }

  /** Returns CRIU itself; empty if it is not yet known, which its next message changes. */
  Optional<ProcessIdentity> criu() {
    return Optional.ofNullable(criu);
  }

  /** Returns the pid of CRIU itself; 0 if a command runs it and it has not sent a message yet. */
  int criuPid() {
    if (command.direct()) {
      return pid();
    }
    return criu == null ? 0 : criu.pid();
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
   * Waits until a message can be received, and reads the output of CRIU.
   *
   * @param wakeup a descriptor that also ends the wait when it becomes readable; -1 for none
   * @return false if no message can be received
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
    if (criu == null && packet.isPresent()) {
      int sender = command.direct() ? pid() : packet.get().sender();
      criu = sender > 1 ? identify(sender) : null;
    }
    return packet;
  }

  private static @Nullable ProcessIdentity identify(int sender) {
    try {
      return ProcessIdentity.of(sender).orElse(null);
    } catch (ProcessUnreadableException e) {
      LOG.debug("process {} is not yet known", sender, e);
      return null; // until its next message
    }
  }

  private void drain() throws NativeCallException {
    while (outputOpen) {
      long count = Libc.functions().read(output, chunk, chunk.length);
      if (count > 0) {
        printed.add(chunk, (int) count);
      } else if (count == 0) {
        outputOpen = false;
      } else if (Libc.errno() == Libc.EAGAIN) {
        return;
      } else if (Libc.errno() != Libc.EINTR) {
        check(count, "read");
      }
    }
  }

  /** Sets the callback that allows a kill of CRIU. */
  void killOnly(CriuCall.BeforeKill when) {
    beforeKill = when;
  }

  /** Ends the conversation; CRIU takes this as a refusal of a notification not yet answered. */
  public void hangUp() {
    // Fails only if CRIU is already gone.
    if (!socket.hangUp()) {
      LOG.debug("{} had hung up", pid());
    }
  }

  /**
   * Waits for CRIU to exit, and reaps the child.
   *
   * @return empty if it still runs
   */
  public Optional<ExitStatus> awaitExit(Deadline deadline) throws NativeCallException {
    boolean ended = deadline.await(REAP_PAUSE_NANOS, this::hasEndedUnlessStopped);
    drain();
    return ended ? exit() : Optional.empty();
  }

  private boolean hasEndedUnlessStopped() throws NativeCallException {
    if (hasEnded()) {
      return true;
    }
    drain();
    resumeIfStopped();
    return false;
  }

  /**
   * Continues a stopped sudo: sudo stops itself when the command it runs is stopped, and would not
   * notice the exit of the command.
   */
  private void resumeIfStopped() {
    if (command.direct()) {
      return;
    }
    try {
      if (ProcFs.stat(pid()).filter(ProcStat::isStopped).isPresent()) {
        child.resume();
      }
    } catch (NativeCallException | ProcessUnreadableException e) {
      LOG.debug("process {} stays stopped", pid(), e);
    }
  }

  /**
   * Returns whether CRIU is dead and the child is reaped. Messages that CRIU sent before may still
   * be unread. With a command both are checked, because sudo may have been killed while CRIU works
   * on.
   */
  boolean hasEnded() throws NativeCallException {
    return child.reap().isPresent() && (command.direct() || criu == null || !criu.isAlive());
  }

  /**
   * Returns the exit status; the exit code of a shell contains the signal that killed its command.
   */
  private Optional<ExitStatus> exit() throws NativeCallException {
    return child.reap().map(status -> command.direct() ? status : status.throughShell());
  }

  /**
   * Kills CRIU, and reaps the child.
   *
   * @return {@link ExitStatus#STILL_RUNS} if it could not be killed, {@link ExitStatus#SPARED} if a
   *     kill would harm another process
   */
  ExitStatus kill() throws NativeCallException {
    return kill(CriuKill.alone(this));
  }

  /** Kills CRIU and possibly its tree, which is determined before CRIU dies. */
  ExitStatus kill(CriuKill kill) throws NativeCallException {
    hangUp();
    if (hasEnded()) {
      drain();
      return exit().orElse(ExitStatus.UNKNOWN);
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

  /** Returns the last 16 KiB of its output on stdout and stderr. */
  public String output() {
    return printed.text();
  }

  @Override
  public void close() throws NativeCallException {
    try {
      ExitStatus status = kill();
      LOG.debug("{} ended: {}", pid(), status);
    } finally {
      socket.close();
      Libc.close(output);
      child.reapLater();
    }
  }
}
