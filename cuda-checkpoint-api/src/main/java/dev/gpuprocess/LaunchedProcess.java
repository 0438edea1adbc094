package dev.gpuprocess;

import dev.gpuprocess.internal.launch.LaunchedRoot;
import dev.gpuprocess.internal.linux.ExitStatus;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.options.LaunchOptions;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.InputStream;
import java.time.Duration;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.concurrent.CompletableFuture;

/**
 * A process that this JVM has started ({@link GpuCheckpoints#launch}) or restored as its child
 * ({@link ProcessImage#launch()}): its root process, with all that it starts. It is followed
 * through {@linkplain CheckpointedProcess#dump dumps} and {@linkplain ProcessImage#restore()
 * restores} by this JVM: a dump is not its end, and after a restore its end is that of the restored
 * process. A dump by another program counts as its end, by signal 9. May be shared between threads.
 *
 * <p>Its restored root becomes a child of this JVM, where CRIU is one, and this JVM tells how it
 * ends. Where CRIU is run through sudo, the end is seen, and its code is not known.
 */
public final class LaunchedProcess {

  private static final Exit UNKNOWN = new Exit(OptionalInt.empty(), OptionalInt.empty());

  private final GpuCheckpoints checkpoints;
  private final LaunchedRoot launched;

  LaunchedProcess(GpuCheckpoints checkpoints, LaunchedRoot launched) {
    this.checkpoints = checkpoints;
    this.launched = launched;
  }

  /**
   * How a process ended. Neither is there when it was restored as the child of another process.
   *
   * @param code what its root exited with
   * @param signal the signal that killed its root
   */
  public record Exit(OptionalInt code, OptionalInt signal) {}

  /**
   * Which process its root is, or was last.
   *
   * @return pid and start time; both change when an {@linkplain LaunchOptions.Builder#isolated
   *     isolated} process is restored, the start time with every restore
   */
  public ProcessIdentity identity() {
    return launched.root();
  }

  /**
   * Takes the process with its descendants, to be suspended and dumped. Unlike {@link
   * GpuCheckpoints#process} this takes a tree without a CUDA process, too: there may be one later.
   *
   * @return the running process
   * @throws dev.gpuprocess.error.GpuCheckpointException as {@link GpuCheckpoints#process}
   */
  public RunningProcess process() {
    return checkpoints.launched(identity().pid());
  }

  /**
   * What its root and its children write to standard output, and to standard error unless that goes
   * elsewhere. If it is not read, they stop when the pipe is full.
   *
   * @return the stream, always the same; empty unless it was started by this JVM and the output is
   *     a {@linkplain LaunchOptions.Builder#output pipe}. It ends when no process has the other end
   *     open
   */
  public Optional<InputStream> output() {
    return launched.output();
  }

  /**
   * What they write to standard error.
   *
   * @return as {@link #output()}; empty unless the error output goes to the caller apart from the
   *     output
   */
  public Optional<InputStream> error() {
    return launched.error();
  }

  /**
   * Whether it is in an image, and was not restored since.
   *
   * @return true from the end of a dump to the end of a restore by this JVM
   */
  public boolean isDumped() {
    return launched.isInImage();
  }

  /**
   * How its root ended.
   *
   * @return empty while it runs or is in an image
   */
  public Optional<Exit> exit() {
    return launched.hasEnded()
        ? Optional.of(launched.status().map(LaunchedProcess::exit).orElse(UNKNOWN))
        : Optional.empty();
  }

  /**
   * What its root exited with.
   *
   * @return empty while it runs or is in an image, when a signal killed it, and when that is not
   *     known
   */
  public OptionalInt exitCode() {
    return exit().map(Exit::code).orElse(OptionalInt.empty());
  }

  static Exit exit(ExitStatus status) {
    return status.signal() > 0
        ? new Exit(OptionalInt.empty(), OptionalInt.of(status.signal()))
        : new Exit(OptionalInt.of(status.code()), OptionalInt.empty());
  }

  /**
   * Waits until its root has ended, through dumps and restores. An interrupt does not end this; the
   * thread stays interrupted.
   *
   * @param limit how long to wait at most
   * @return how it ended; empty when the time is up
   * @throws IllegalArgumentException when the limit is negative
   */
  public Optional<Exit> awaitExit(Duration limit) {
    return launched.awaitEnd(Durations.notNegative("limit", limit)) ? exit() : Optional.empty();
  }

  /**
   * Returns a future of its end, through dumps and restores, so that no thread has to wait for it.
   * The future is completed on a thread of the library, and cancelling it does nothing else.
   *
   * @return completed with how its root ended; a new future at each call
   */
  public CompletableFuture<Exit> onExit() {
    return launched.end().thenApply(status -> status.map(LaunchedProcess::exit).orElse(UNKNOWN));
  }

  /**
   * Ends all of it: the root, its descendants, and what is in its session or in one that one of
   * those leads, also when the root has ended before. Each gets SIGTERM, and SIGKILL when something
   * is left after the grace. No other process is signalled, even if a pid is used again. The root
   * of an {@linkplain LaunchOptions.Builder#isolated isolated} process that does not handle SIGTERM
   * gets SIGKILL at once, as it would not notice a SIGTERM.
   *
   * @param grace how long they may take to end by themselves
   * @return how the root ended; empty when it is in an image, and nothing was done
   * @throws dev.gpuprocess.error.OperationTimedOutException when something of it does not end
   *     within two minutes of its SIGKILL
   * @throws dev.gpuprocess.error.FixAndRetryException with a LAUNCH reason when it cannot be
   *     signalled
   * @throws IllegalArgumentException when the grace is negative
   */
  public Optional<Exit> end(Duration grace) {
    return launched.end(Durations.notNegative("grace", grace)) ? exit() : Optional.empty();
  }

  @Override
  public String toString() {
    return "launched process " + identity().pid();
  }
}
