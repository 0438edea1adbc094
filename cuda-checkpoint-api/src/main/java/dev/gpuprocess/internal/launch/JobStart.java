package dev.gpuprocess.internal.launch;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.internal.linux.ChildStart;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.OutputPipe;
import dev.gpuprocess.internal.linux.PacketSocketPair;
import dev.gpuprocess.internal.linux.PidDescriptor;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.options.LaunchOptions;
import dev.gpuprocess.options.LaunchOptions.Output;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * Starts one job. The program {@code job} is started first, which prepares everything and then
 * waits. The guard is started beside it, and only then may it become the command: a JVM that is
 * killed at any moment leaves no process behind that it should have ended.
 */
final class JobStart implements AutoCloseable {

  private static final int MESSAGE_BYTES = 12;
  private static final int PID = 1;
  private static final int READY = 2;
  private static final int FAILED = 3;
  private static final int GO = 4;

  /** How long what was killed may take to end. */
  private static final Duration KILL_LIMIT = Duration.ofSeconds(60);

  private final LaunchOptions options;
  private final @Nullable RequestChannel requests;
  private final @Nullable CudaJobFile jobFile;
  private final Journal journal;
  private final Duration limit;
  private final long end;
  private @Nullable OutputPipe output;
  private @Nullable OutputPipe error;

  /**
   * Prepares; nothing is done yet.
   *
   * @param requests takes requests for snapshots; null for a process that makes none
   * @param jobFile is made for the process; null for none
   * @param journal gets an entry for a process that is to end with this JVM
   * @param limit for all of it
   */
  JobStart(
      LaunchOptions options,
      @Nullable RequestChannel requests,
      @Nullable CudaJobFile jobFile,
      Journal journal,
      Duration limit) {
    this.options = options;
    this.requests = requests;
    this.jobFile = jobFile;
    this.journal = journal;
    this.limit = limit;
    this.end = Durations.end(limit);
  }

  /** A process that has begun. Descriptor and guard are the receiver's. */
  record Started(
      ProcessIdentity root,
      PidDescriptor held,
      Guard guard,
      @Nullable InputStream output,
      @Nullable InputStream error) {}

  /** What the program says. */
  private record Message(int kind, int step, int value) {

    static Optional<Message> parse(byte[] bytes) {
      ByteBuffer text = ByteBuffer.wrap(bytes).order(ByteOrder.nativeOrder());
      return bytes.length == MESSAGE_BYTES
          ? Optional.of(new Message(text.getInt(), text.getInt(), text.getInt()))
          : Optional.empty();
    }

    byte[] bytes() {
      return ByteBuffer.allocate(MESSAGE_BYTES)
          .order(ByteOrder.nativeOrder())
          .putInt(kind)
          .putInt(step)
          .putInt(value)
          .array();
    }
  }

  /**
   * Starts the job.
   *
   * @throws FixAndRetryException with a LAUNCH reason when the command cannot be started as it is
   * @throws IOException when no command could be
   * @throws OperationTimedOutException when it does not begin in time
   */
  Started run() throws IOException {
    try (PacketSocketPair socket = PacketSocketPair.make()) {
      int pid = spawn(socket);
      socket.closeTheirs();
      return begin(socket, pid);
    }
  }

  private int spawn(PacketSocketPair socket) throws IOException {
    Path program = NativeFiles.path(NativeFiles.JOB);
    Optional<Path> preload =
        options.dropInheritedGpu()
            ? Optional.of(NativeFiles.path(NativeFiles.FORK_HANDLER))
            : Optional.empty();
    if (options.output().kind() == Output.Kind.CALLER) {
      output = OutputPipe.make();
    }
    if (options.error().filter(to -> to.kind() == Output.Kind.CALLER).isPresent()) {
      error = OutputPipe.make();
    }
    try {
      return ChildStart.start(
          program,
          StarterArguments.of(options, preload, requests, jobFile),
          variable -> options.inheritEnvironment(),
          List.of(ChildStart.NOWHERE, end(output), end(error), socket.theirs()));
    } catch (NativeCallException e) {
      if (LaunchFailures.isTooLong(e.errno())) {
        throw LaunchFailures.of(options, LaunchFailures.EXEC, e.errno());
      }
      throw e;
    }
  }

  private static int end(@Nullable OutputPipe pipe) {
    return pipe == null ? ChildStart.NOWHERE : pipe.end();
  }

  private Started begin(PacketSocketPair socket, int starter) throws IOException {
    int pid = starter;
    PidDescriptor held = PidDescriptor.open(starter);
    ProcessIdentity root = null;
    Guard guard = null;
    try {
      Message said = hear(socket, held);
      if (said.kind() == PID) {
        // The process is a child of ours, too, and the starter ends.
        end(held);
        pid = said.value();
        held = PidDescriptor.open(pid);
        said = hear(socket, held);
      }
      if (said.kind() != READY) {
        throw LaunchFailures.of(options, said.step(), said.value());
      }
      root = ProcessIdentity.of(pid).orElseThrow(() -> new IOException("it was killed"));
      if (!options.survivesExit()) {
        journal.writeLaunch(root);
      }
      Path entry = journal.launchFile(root);
      guard = Guard.start(root, held, options.survivesExit(), entry, left());
      if (requests != null) {
        requests.open();
      }
      go(socket, held);
      return new Started(root, held, guard, given(output), given(error));
    } catch (IOException | RuntimeException e) {
      kill(held);
      socket.close();
      if (options.isolated()) {
        // A starter that was killed may have had a child of ours, which has not told its pid.
        Orphans.awaitAndReap(starter, KILL_LIMIT);
      }
      if (guard != null) {
        // The command may have begun, and have children.
        boolean unused = guard.kill();
        unused = guard.reap();
      }
      if (root != null) {
        journal.removeLaunch(journal.launchFile(root));
      }
      throw e;
    }
  }

  private static @Nullable InputStream given(@Nullable OutputPipe pipe) {
    return pipe == null ? null : pipe.give();
  }

  private void go(PacketSocketPair socket, PidDescriptor held) throws IOException {
    if (!socket.send(new Message(GO, 0, 0).bytes())) {
      throw LaunchFailures.killed(options, held.awaitEnd(left()) ? held.reap() : Optional.empty());
    }
    // The exec closes the socket. A process that is killed before it counts as one that has begun.
    byte[] answer = socket.receive(left()).orElseThrow(this::late);
    Optional<Message> failed = Message.parse(answer).filter(said -> said.kind() == FAILED);
    if (failed.isPresent()) {
      throw LaunchFailures.of(options, failed.get().step(), failed.get().value());
    }
  }

  private Message hear(PacketSocketPair socket, PidDescriptor held) throws IOException {
    Optional<Message> said = Message.parse(socket.receive(left()).orElseThrow(this::late));
    if (said.isEmpty()) {
      throw LaunchFailures.killed(options, held.awaitEnd(left()) ? held.reap() : Optional.empty());
    }
    return said.get();
  }

  private OperationTimedOutException late() {
    return new OperationTimedOutException(
        "%s did not begin within %s, and was given up: find out what its directory, its files or its program wait for"
            .formatted(options.command().get(0), limit),
        Failure.of("launch", 0));
  }

  private Duration left() {
    return Durations.remaining(end);
  }

  /** The starter of an isolated process ends by itself. */
  private void end(PidDescriptor held) throws IOException {
    if (!held.awaitEnd(left())) {
      throw late();
    }
    Optional<PidDescriptor.WaitStatus> unused = held.reap();
    held.close();
  }

  private static void kill(PidDescriptor held) throws NativeCallException {
    boolean unused = held.signal(PidDescriptor.SIGKILL);
    if (held.awaitEnd(KILL_LIMIT)) {
      Optional<PidDescriptor.WaitStatus> unusedStatus = held.reap();
    }
    held.close();
  }

  /** Closes what is the child's, and what was not given to the caller. */
  @Override
  public void close() throws IOException {
    try {
      if (output != null) {
        output.close();
      }
    } finally {
      if (error != null) {
        error.close();
      }
    }
  }
}
