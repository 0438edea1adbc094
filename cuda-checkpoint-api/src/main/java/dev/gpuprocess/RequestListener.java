package dev.gpuprocess;

import dev.gpuprocess.image.PruneReport;

/**
 * Told of each snapshot that a job {@linkplain GpuCheckpoints#launch(
 * dev.gpuprocess.options.LaunchOptions, RequestPlan) has asked for}, on a thread of this library.
 * What it throws is logged and changes nothing. While a method runs no snapshot is begun.
 */
public interface RequestListener {

  /** A listener that does nothing. */
  RequestListener NONE = new RequestListener() {};

  /**
   * An image was made; it is durable, the job runs on, and who asked was told.
   *
   * @param image the image, with its steps and times
   */
  default void made(JobImage image) {}

  /**
   * A snapshot failed, or was refused; nothing is left of its image, and who asked was told.
   *
   * @param why what {@link RunningJob#snapshot(java.nio.file.Path,
   *     dev.gpuprocess.options.DumpOptions)} threw, which says what became of the job; most often a
   *     {@link dev.gpuprocess.error.GpuCheckpointException}
   */
  default void failed(Throwable why) {}

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
}
