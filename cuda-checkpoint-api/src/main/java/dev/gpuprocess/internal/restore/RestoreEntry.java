package dev.gpuprocess.internal.restore;

import dev.gpuprocess.error.Fate;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.PidTakenException;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.image.ImageDirectory;
import dev.gpuprocess.internal.image.LogDirectory;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.state.GpuUsage;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.report.ProcessIdentity;
import java.time.Duration;

/**
 * The journal entry of a restore by CRIU, from which a recovery finds the process if this JVM ends.
 * Closing removes the entry, unless the fate of the process is unknown. For one thread; CRIU's
 * listener may call {@link #found}.
 */
final class RestoreEntry implements AutoCloseable {

  /** A shortage of descriptors may be over after this time. */
  private static final Duration NOTE_LIMIT = Duration.ofSeconds(1);

  private final EngineContext context;
  private final ImageDirectory image;
  private final RestoredTree tree;
  private final LogDirectory log;
  private final Journal journal;
  private final GpuUsage held;
  private final ProcessKey key;

  /** The pid that the process has or will have; of an isolated one it is known late. */
  private volatile int pid;

  /** Whether the journal has all that a recovery needs without this entry. */
  private boolean isObsolete;

  RestoreEntry(RestoredTree tree, int pid, LogDirectory log) {
    this.context = tree.context();
    this.image = tree.image();
    this.tree = tree;
    this.log = log;
    this.journal = new Journal(context.state());
    this.held = GpuUsage.recorded(image.manifest().gpuBytes());
    this.pid = pid;
    this.key = journal.writeRestore(pid, held, image.path(), log.path());
  }

  /** Records the pid of the root as soon as CRIU has made it. */
  void found(int root) {
    pid = root;
    journal.updateRestore(key, root, held, image.path(), log.path());
  }

  /** Replaces the entry by entries of the members, which CRIU has restored. */
  void restored(ProcessIdentity root) {
    isObsolete = isNoted(root);
    if (!isObsolete) {
      found(root.pid());
    }
    log.delete();
  }

  private boolean isNoted(ProcessIdentity root) {
    return Polling.until(NOTE_LIMIT, () -> tree.note(root));
  }

  /**
   * Ends a restore that failed. If CRIU failed after it let the process run, the journal gets the
   * GPU memory of the process, for its resume. If the fate of the process cannot be found out, the
   * entry stays for a recovery.
   *
   * @param why gets the reason why the process cannot be inspected
   */
  void failed(Throwable why) {
    log.endedWith(why);
    isObsolete = why instanceof PidTakenException || (!isFateUnknown(why) && isSurvivorNoted(why));
  }

  private static boolean isFateUnknown(Throwable e) {
    return e instanceof GpuCheckpointException known && known.failure().fate() == Fate.UNKNOWN;
  }

  private boolean isSurvivorNoted(Throwable why) {
    try (Polling patience = new Polling(context.timeouts().call())) {
      while (true) {
        try {
          return ProcessIdentity.of(pid)
              .filter(found -> found.isAlive() && found.startTicks() >= key.startTicks())
              .map(tree::note)
              .orElse(true);
        } catch (ProcessUnreadableException unknown) {
          if (!patience.pause()) {
            why.addSuppressed(unknown);
            return false;
          }
        }
      }
    }
  }

  @Override
  public void close() {
    if (isObsolete) {
      journal.removeRestore(key);
    }
  }
}
