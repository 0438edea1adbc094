package dev.gpuprocess.spi;

import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.report.ProcessIdentity;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/**
 * What to dump, where to, and how. Immutable.
 *
 * @param process the root of the tree
 * @param images an existing, empty directory for the image files
 * @param work an existing directory for CRIU's log and statistics
 * @param options how to dump, with the deadline
 * @param plugin the plugin that CRIU loads; null for none
 */
public record DumpRequest(
    ProcessIdentity process,
    Path images,
    Path work,
    DumpOptions options,
    @Nullable GpuPlugin plugin) {

  /**
   * A dump without a plugin.
   *
   * @param process the root of the tree
   * @param images an existing, empty directory for the image files
   * @param work an existing directory for CRIU's log and statistics
   * @param options how to dump, with the deadline
   */
  public DumpRequest(ProcessIdentity process, Path images, Path work, DumpOptions options) {
    this(process, images, work, options, null);
  }

  /**
   * The same with a plugin that CRIU loads.
   *
   * @param allowed the plugin; null for none
   * @return a copy
   */
  public DumpRequest with(@Nullable GpuPlugin allowed) {
    return new DumpRequest(process, images, work, options, allowed);
  }
}
