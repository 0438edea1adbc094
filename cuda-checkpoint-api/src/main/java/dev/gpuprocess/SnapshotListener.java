package dev.gpuprocess;

import dev.gpuprocess.image.PruneReport;
import dev.gpuprocess.report.SkippedSnapshot;

/**
 * Notified of each snapshot of {@linkplain RunningProcess#repeatSnapshots repeated snapshots}, and
 * of those that a process {@linkplain GpuCheckpoints#launch(dev.gpuprocess.options.LaunchOptions,
 * SnapshotPlan) asks for}, on their threads: two methods may be called at the same time. What it
 * throws is logged and changes nothing. While a method runs no snapshot is begun.
 */
public interface SnapshotListener {

  /** A listener that does nothing. */
  SnapshotListener NONE = new SnapshotListener() {};

  /**
   * An image was made; it is durable, and the process runs on. A process that requested it has its
   * answer.
   *
   * @param image with its steps and times
   */
  default void made(ProcessImage image) {}

  /**
   * A snapshot failed. Nothing is left of its image, unless the process could not be resumed or may
   * have ended. The series goes on. A process that requested it has its answer.
   *
   * @param why what {@link RunningProcess#snapshot(java.nio.file.Path,
   *     dev.gpuprocess.options.DumpOptions)} or that of the process threw, which says what became
   *     of it; most often a {@link dev.gpuprocess.error.GpuCheckpointException}
   */
  default void failed(Throwable why) {}

  /**
   * A snapshot was due and is left out; the process was not touched.
   *
   * @param skipped why
   */
  default void skipped(SkippedSnapshot skipped) {}

  /**
   * After an image was made, others were removed, or spared although the policy does not ask for
   * them.
   *
   * @param report which
   */
  default void pruned(PruneReport report) {}

  /**
   * After an image was made, it could not be found out which others to remove. The next image has
   * it tried again.
   *
   * @param why what {@link ImageStore#prune} threw
   */
  default void pruneFailed(Throwable why) {}

  /**
   * The series has ended; no other method is called after this.
   *
   * @param closed true when it was closed; false when the process has ended
   */
  default void ended(boolean closed) {}
}
