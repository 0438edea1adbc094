package dev.gpuprocess.internal.launch;

import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * A restore of a launched process, or one that makes a process a launched process. The guard is
 * started while CRIU still stops the tree, so that the process never runs without a guard. For one
 * thread.
 */
public final class LaunchedRestore {

  private final ProcessIdentity dumped;
  private final boolean isolated;
  private final Duration limit;
  private final Journal journal;
  private final boolean isKnown;
  private final boolean survivesExit;

  /** The process; null until a restore has made it a launched process. */
  private @Nullable LaunchedRoot launched;

  private final ExitWatcher watcher;
  private @Nullable Lifetime next;

  private LaunchedRestore(
      EngineContext context,
      ProcessIdentity dumped,
      boolean isolated,
      boolean survivesExit,
      @Nullable LaunchedRoot launched) {
    this.survivesExit = survivesExit;
    this.dumped = dumped;
    this.isolated = isolated;
    this.limit = context.timeouts().call();
    this.journal = new Journal(context.state());
    this.isKnown = launched != null;
    this.launched = launched;
    try {
      this.watcher = ExitWatcher.start();
    } catch (RuntimeException | Error e) {
      if (launched != null) {
        launched.notRestored();
      }
      throw e;
    }
  }

  /**
   * Begins the restore of a process that this JVM launched and dumped.
   *
   * @param dumped the process in the image
   * @return empty if it was not launched here, is running, or has exited
   */
  public static Optional<LaunchedRestore> known(
      EngineContext context, ProcessIdentity dumped, boolean isolated) {
    return LaunchedRoot.restoring(dumped)
        .map(root -> new LaunchedRestore(context, dumped, isolated, false, root));
  }

  /**
   * Begins a restore after which the process is a launched process of this JVM.
   *
   * @param survivesExit whether it survives the exit of this JVM; one that this JVM launched before
   *     does as it did then
   */
  public static LaunchedRestore launching(
      EngineContext context, ProcessIdentity dumped, boolean isolated, boolean survivesExit) {
    return known(context, dumped, isolated)
        .orElseGet(() -> new LaunchedRestore(context, dumped, isolated, survivesExit, null));
  }

  /** Waits until nothing is left of the dumped process: the guard, and orphans of its session. */
  public void awaitReaped() {
    if (launched != null) {
      launched.awaitReaped();
    }
  }

  /**
   * Starts the guard. CRIU has made the tree, and does not let it run before this returns.
   *
   * @throws IOException when the process cannot be guarded
   * @throws OperationTimedOutException when its guard does not begin in time
   */
  public void guard(int pid) throws IOException {
    ProcessIdentity root =
        ProcessIdentity.of(pid)
            .orElseThrow(() -> new IOException("process " + pid + " was killed"));
    next =
        launched == null
            ? Lifetime.restored(root, survivesExit, journal, limit)
            : launched.nextLifetime(root);
    LaunchedRoot.beginRestore(pid);
  }

  /** Ends the restore: the process runs, if it has not exited already. */
  public void restored() {
    Lifetime begun = Objects.requireNonNull(next, "a driver calls postRestore");
    try {
      if (launched == null) {
        launched =
            LaunchedRoot.restored(isolated, survivesExit, limit, journal, dumped, begun, watcher);
      } else {
        launched.begin(begun, watcher);
      }
    } finally {
      LaunchedRoot.endRestore(begun.root.pid());
    }
  }

  /**
   * Ends a restore that has failed, after which the process may run all the same.
   *
   * @param why gets the reason why the guard cannot be ended
   */
  public void failed(Throwable why) {
    Lifetime begun = next;
    try {
      if (begun != null && begun.root.isAlive()) {
        restored();
        return;
      }
      if (launched != null) {
        launched.notRestored();
      }
      if (begun != null) {
        LaunchedRoot.endRestore(begun.root.pid());
        begun.discard();
      }
    } catch (IOException | RuntimeException | Error e) {
      why.addSuppressed(e);
    } finally {
      watcher.close();
    }
  }

  /** Returns whether it was a launched process before, which the caller has. */
  public boolean isKnown() {
    return isKnown;
  }

  /** Returns the process; empty before its restore. */
  public Optional<LaunchedRoot> launched() {
    return Optional.ofNullable(launched);
  }
}
