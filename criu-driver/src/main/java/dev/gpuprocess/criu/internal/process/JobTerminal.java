package dev.gpuprocess.criu.internal.process;

import dev.gpuprocess.criu.internal.linux.ChildProcess;
import dev.gpuprocess.internal.launch.NativeFile;
import dev.gpuprocess.internal.linux.ExitStatus;
import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.PacketSocketPair;
import dev.gpuprocess.internal.linux.PidDescriptor;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The terminal of a restored job. A program of the library ({@code hold.c}) starts CRIU in the
 * session of the terminal and then holds a new terminal for as long as the job has it: the kernel
 * would hang it up otherwise. Not for use by several threads.
 */
public final class JobTerminal implements AutoCloseable {

  /** Where the terminal comes from. */
  public enum Kind {
    /** A new one, for a job that does not lead its session. */
    NEW,
    /** A new one, for a job that leads its session. */
    APART,
    /** The terminal of this JVM. */
    CALLER
  }

  private static final Logger LOG = LoggerFactory.getLogger(JobTerminal.class);
  private static final Duration LIMIT = Duration.ofMinutes(1);
  private static final int STANDARD_DESCRIPTORS = 3;

  private final Path program;
  private final Kind kind;
  private final int rows;
  private final int columns;
  private final int descriptor;
  private @Nullable PacketSocketPair control;

  private JobTerminal(Path program, Kind kind, int rows, int columns, int descriptor) {
    this.program = program;
    this.kind = kind;
    this.rows = rows;
    this.columns = columns;
    this.descriptor = descriptor;
  }

  /**
   * Returns a new terminal.
   *
   * @param apart whether the job leads its session
   * @param log the file to which the output of the terminal is appended; created with mode 0600
   * @throws IOException if the file cannot be written, or if the program cannot be installed
   */
  public static JobTerminal create(boolean apart, int rows, int columns, Path log)
      throws IOException {
    Path program = NativeFile.installed(NativeFile.LAUNCHER);
    return new JobTerminal(
        program, apart ? Kind.APART : Kind.NEW, rows, columns, Libc.openToAppend(log));
  }

  /**
   * Returns the terminal of this JVM.
   *
   * @return empty if no standard descriptor is its controlling terminal
   * @throws IOException if the program cannot be installed
   */
  public static Optional<JobTerminal> ofCaller() throws IOException {
    for (int standard = 0; standard < STANDARD_DESCRIPTORS; standard++) {
      if (Libc.functions().tcgetpgrp(standard) >= 0) {
        Path program = NativeFile.installed(NativeFile.LAUNCHER);
        return Optional.of(new JobTerminal(program, Kind.CALLER, 0, 0, standard));
      }
    }
    return Optional.empty();
  }

  /** Returns where the terminal comes from. */
  public Kind kind() {
    return kind;
  }

  /**
   * Starts CRIU with this terminal as its standard input.
   *
   * @param output becomes 1 and 2 of CRIU
   * @param numbered become {@link ChildProcess#SOCKET} and the numbers after it
   */
  ChildProcess start(CriuCommand command, int output, List<Integer> numbered)
      throws NativeCallException {
    List<String> arguments =
        new ArrayList<>(
            List.of(
                "hold",
                kind.name().toLowerCase(Locale.ROOT),
                Integer.toString(rows),
                Integer.toString(columns),
                Integer.toString(numbered.size()),
                "--",
                command.program().toString()));
    arguments.addAll(command.arguments());
    List<Integer> descriptors = new ArrayList<>(numbered);
    descriptors.add(descriptor);
    PacketSocketPair socket = PacketSocketPair.make();
    control = socket;
    ChildProcess holder =
        kind == Kind.CALLER
            ? ChildProcess.startInThisSession(
                program, arguments, socket.theirs(), output, descriptors, command.mounts())
            : ChildProcess.start(
                program, arguments, socket.theirs(), output, descriptors, command.mounts());
    socket.closeTheirs();
    reapAtEnd(holder.pid());
    Optional<byte[]> answer = socket.receive(LIMIT);
    if (answer.isEmpty() || answer.get().length != Integer.BYTES) {
      boolean unused = holder.kill();
      throw Libc.failure("the program that holds the terminal did not start CRIU", Libc.ESRCH);
    }
    int pid = ByteBuffer.wrap(answer.get()).order(ByteOrder.LITTLE_ENDIAN).getInt();
    Libc.checkAnswer(Math.max(0, -pid), "the terminal cannot be made");
    LOG.debug("process {} holds the terminal of CRIU {}", holder.pid(), pid);
    return ChildProcess.of(pid);
  }

  /** Reaps the holder when the job has ended, which may be long after this restore. */
  private static void reapAtEnd(int pid) {
    Thread reaper =
        new Thread(
            () -> {
              try {
                ExitStatus status = PidDescriptor.awaitAndReap(pid);
                LOG.debug("process {} no longer holds its terminal: {}", pid, status);
              } catch (NativeCallException e) {
                LOG.debug("process {} cannot be reaped", pid, e);
              }
            },
            "gpuprocess-terminal-" + pid);
    reaper.setDaemon(true);
    reaper.start();
  }

  /** Releases the terminal of this JVM to the process group that had it, and the log. */
  @Override
  public void close() {
    if (control != null) {
      control.close();
    }
    if (kind != Kind.CALLER) {
      Libc.close(descriptor);
    }
  }
}
