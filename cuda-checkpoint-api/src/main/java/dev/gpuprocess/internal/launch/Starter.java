package dev.gpuprocess.internal.launch;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.internal.linux.ChildStart;
import dev.gpuprocess.internal.linux.ExitStatus;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.OutputPipe;
import dev.gpuprocess.internal.linux.PacketSocketPair;
import dev.gpuprocess.internal.linux.PidDescriptor;
import dev.gpuprocess.internal.proc.Signals;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.internal.text.NativePath;
import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.options.LaunchOptions;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.lang.ProcessBuilder.Redirect;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Starts one process. The program {@code job} is started first: it prepares everything and waits.
 * Then the guard is started, and only then does the program execute the command: so a JVM that is
 * killed at any moment leaves no process behind that must exit with it.
 */
final class Starter implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private static final Path NULL_DEVICE = Path.of("/dev/null");
  private static final int MESSAGE_BYTES = 12;
  private static final int PID = 1;
  private static final int READY = 2;
  private static final int FAILED = 3;
  private static final int GO = 4;

  private final LaunchOptions options;
  private final @Nullable RequestChannel requests;
  private final @Nullable CudaJobFile jobFile;
  private final Journal journal;
  private final Duration limit;
  private final Deadline deadline;
  private @Nullable OutputPipe output;
  private @Nullable OutputPipe error;

  /**
   * Creates a starter, which starts nothing yet.
   *
   * @param requests the channel for requests for snapshots; null for a process that makes none
   * @param jobFile the job file of the process; null for none
   * @param journal gets an entry for a process that must exit with this JVM
   * @param limit the time limit of the start
   */
  Starter(
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
    this.deadline = Deadline.after(limit);
  }

  /** A process that was started. The caller owns descriptor and guard. */
  record Started(
      ProcessIdentity root,
      PidDescriptor held,
      Guard guard,
      @Nullable InputStream output,
      @Nullable InputStream error) {}

  /** A message of the program. */
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
   * Starts the process.
   *
   * @throws FixAndRetryException with a LAUNCH reason when this command cannot be started
   * @throws IOException when no command can be started
   * @throws OperationTimedOutException when it does not start in time
   */
  Started run() throws IOException {
    try (PacketSocketPair socket = PacketSocketPair.make()) {
      return begin(socket, spawn(socket));
    }
  }

  private int spawn(PacketSocketPair socket) throws IOException {
    Path program = NativeFile.installed(NativeFile.LAUNCHER);
    Optional<Path> preload =
        options.dropInheritedGpu()
            ? Optional.of(NativeFile.installed(NativeFile.FORK_HANDLER))
            : Optional.empty();
    if (options.output().equals(Redirect.PIPE)) {
      output = OutputPipe.make();
    }
    if (options.error().filter(Redirect.PIPE::equals).isPresent()) {
      error = OutputPipe.make();
    }
    try {
      return NativeFile.start(
          program,
          arguments(preload),
          variable -> options.inheritEnvironment(),
          List.of(ChildStart.NOWHERE, end(output), end(error), socket.theirs()),
          socket);
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

  /** Returns the arguments of the program, which reads them in this order. */
  private List<byte[]> arguments(Optional<Path> preload) {
    List<byte[]> all = new ArrayList<>();
    all.add(NativeFile.argument("gpuprocess-start"));
    all.add(NativeFile.argument("start"));
    if (options.isolated()) {
      option(all, "isolate", "yes"); // must be the first
    }
    addFiles(all, options);
    addEnvironment(all, options);
    preload.ifPresent(library -> option(all, "preload", library));
    if (jobFile != null) {
      option(all, "job-file", jobFile.path());
    }
    if (requests != null) {
      option(all, "socket", requests.socket());
      option(all, "requests", requests.fifo());
    }
    // Last, because the other paths are not relative to it.
    options.directory().ifPresent(directory -> option(all, "directory", directory));
    all.add(NativeFile.argument("--"));
    options.command().forEach(word -> all.add(NativePath.encode(word)));
    return all;
  }

  private static void addFiles(List<byte[]> all, LaunchOptions options) {
    option(all, "in", options.input().orElse(NULL_DEVICE));
    addOutput(all, "out", options.output());
    options
        .error()
        .ifPresentOrElse(error -> addOutput(all, "err", error), () -> option(all, "join", "yes"));
  }

  private static void addOutput(List<byte[]> all, String name, Redirect output) {
    File file = output.file();
    if (file != null) { // otherwise it is a pipe, which the program has already
      boolean appends = output.type() == Redirect.Type.APPEND;
      option(all, appends ? name + "+" : name, file.toPath().toAbsolutePath());
    }
  }

  private static void addEnvironment(List<byte[]> all, LaunchOptions options) {
    for (String name : options.removedEnvironment()) {
      all.add(NativeFile.argument("unset"));
      all.add(NativePath.encode(name));
    }
    options
        .environment()
        .forEach(
            (name, value) -> {
              all.add(NativeFile.argument("set"));
              all.add(joined(NativePath.encode(name), NativePath.encode(value)));
            });
  }

  private static byte[] joined(byte[] name, byte[] value) {
    ByteArrayOutputStream joined = new ByteArrayOutputStream();
    joined.writeBytes(name);
    joined.write('=');
    joined.writeBytes(value);
    return joined.toByteArray();
  }

  private static void option(List<byte[]> all, String name, Path value) {
    all.add(NativeFile.argument(name));
    all.add(NativePath.bytes(value));
  }

  private static void option(List<byte[]> all, String name, String value) {
    all.add(NativeFile.argument(name));
    all.add(NativeFile.argument(value));
  }

  private Started begin(PacketSocketPair socket, int starter) throws IOException {
    int pid = starter;
    PidDescriptor held = PidDescriptor.ofChild(starter);
    ProcessIdentity root = null;
    Guard guard = null;
    try {
      Message message = receive(socket, held);
      if (message.kind() == PID) {
        // The isolated process is a child of ours, too, and the starter exits.
        awaitStarter(held);
        PidDescriptor child = PidDescriptor.open(message.value());
        held.close();
        held = child;
        pid = message.value();
        message = receive(socket, held);
      }
      if (message.kind() != READY) {
        throw LaunchFailures.of(options, message.step(), message.value());
      }
      root = ProcessIdentity.of(pid).orElseThrow(() -> new IOException("it was killed"));
      if (!options.survivesExit()) {
        journal.writeLaunch(root);
      }
      Path entry = options.survivesExit() ? journal.exitFile(root) : journal.launchFile(root);
      guard = guard(root, held, entry);
      if (requests != null) {
        requests.open();
      }
      go(socket, held);
      return new Started(root, held, guard, given(output), given(error));
    } catch (IOException | RuntimeException | Error e) {
      socket.close();
      try (PidDescriptor abandoned = held) {
        end(abandoned, starter, guard);
        if (root != null) {
          journal.remove(journal.launchFile(root));
        }
      } catch (IOException | RuntimeException left) {
        e.addSuppressed(left);
      }
      throw e;
    }
  }

  private Guard guard(ProcessIdentity root, PidDescriptor held, Path entry) throws IOException {
    try {
      return Guard.start(root, held, options.survivesExit(), entry, left());
    } catch (OperationTimedOutException e) {
      OperationTimedOutException late = late();
      late.addSuppressed(e);
      throw late;
    }
  }

  /** Ends a process that was not started completely, its guard, and what they have started. */
  private void end(PidDescriptor held, int starter, @Nullable Guard guard)
      throws NativeCallException {
    boolean unused = held.signal(Signals.SIGKILL);
    if (guard != null) {
      // The command may be running, and have children.
      unused = guard.kill();
    }
    if (held.awaitEnd(Lifetime.KILL_LIMIT)) {
      Optional<ExitStatus> unusedStatus = held.reap();
    }
    if (options.isolated()) {
      // A starter that was killed may have left a child whose pid it had not sent.
      Orphans.awaitAndReap(starter, Lifetime.KILL_LIMIT);
    }
    if (guard != null) {
      unused = guard.awaitEnd(Lifetime.KILL_LIMIT);
    }
  }

  private static @Nullable InputStream given(@Nullable OutputPipe pipe) {
    return pipe == null ? null : pipe.give();
  }

  private void go(PacketSocketPair socket, PidDescriptor held) throws IOException {
    if (!socket.send(new Message(GO, 0, 0).bytes())) {
      throw LaunchFailures.killed(options, held.awaitEnd(left()) ? held.reap() : Optional.empty());
    }
    // The exec closes the socket. A process that is killed before the exec counts as started.
    byte[] answer = socket.receive(left()).orElseThrow(this::late);
    Optional<Message> failed = Message.parse(answer).filter(message -> message.kind() == FAILED);
    if (failed.isPresent()) {
      throw LaunchFailures.of(options, failed.get().step(), failed.get().value());
    }
  }

  private Message receive(PacketSocketPair socket, PidDescriptor held) throws IOException {
    Optional<Message> message = Message.parse(socket.receive(left()).orElseThrow(this::late));
    if (message.isEmpty()) {
      throw LaunchFailures.killed(options, held.awaitEnd(left()) ? held.reap() : Optional.empty());
    }
    return message.get();
  }

  private OperationTimedOutException late() {
    return new OperationTimedOutException(
        "%s did not start within %s, and is being killed: find out why its directory, its files or its program are not available, or allow more time on a busy machine (Timeouts.call)"
            .formatted(options.command().get(0), Printable.of(limit)),
        Failure.of("launch", 0));
  }

  private Duration left() {
    return deadline.remaining();
  }

  /** Waits until the starter of an isolated process has exited. */
  private void awaitStarter(PidDescriptor held) throws IOException {
    if (!held.awaitEnd(left())) {
      throw late();
    }
    Optional<ExitStatus> unused = held.reap();
  }

  /** Closes the child's ends of the pipes, and pipes that were not given to the caller. */
  @Override
  public void close() {
    close(output);
    close(error);
  }

  /** The process may be running, so a failure is not one of the start. */
  private static void close(@Nullable OutputPipe pipe) {
    try {
      if (pipe != null) {
        pipe.close();
      }
    } catch (IOException | RuntimeException e) {
      LOG.warn("a pipe to a launched process cannot be closed", e);
    }
  }
}
