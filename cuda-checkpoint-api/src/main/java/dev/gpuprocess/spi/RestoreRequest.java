package dev.gpuprocess.spi;

import dev.gpuprocess.options.RestoreOptions;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/**
 * What to restore, and how. Immutable.
 *
 * @param images the directory with the image files
 * @param work an existing directory for CRIU's log and statistics
 * @param pid the pid that the root of the tree had and will have
 * @param options how to restore, with the deadline
 * @param plugin the plugin that CRIU loads, which the images need; null for none
 * @param asChild whether the root becomes a child of this JVM instead of init's (CRIU {@code
 *     restore-sibling}); the JDK does not know the child, so the caller reaps it
 */
public record RestoreRequest(
    Path images,
    Path work,
    int pid,
    RestoreOptions options,
    @Nullable GpuPlugin plugin,
    boolean asChild) {

  /**
   * Checks the options.
   *
   * @throws IllegalArgumentException when the options expect a label or a process, which only a
   *     manifest can tell
   */
  public RestoreRequest {
    if (options.expectedLabel().isPresent() || options.expectedProcess().isPresent()) {
      throw new IllegalArgumentException(
          "CRIU's images have no label or process identity: to expect one, restore with ProcessImage");
    }
  }

  /**
   * A restore.
   *
   * @param images the directory with the image files
   * @param work an existing directory for CRIU's log and statistics
   * @param pid the pid that the root of the tree had and will have
   * @param options how to restore, with the deadline
   */
  public RestoreRequest(Path images, Path work, int pid, RestoreOptions options) {
    this(images, work, pid, options, null, false);
  }

  /**
   * The same with a plugin that CRIU loads.
   *
   * @param allowed the plugin; null for none
   * @return a copy
   */
  public RestoreRequest with(@Nullable GpuPlugin allowed) {
    return new RestoreRequest(images, work, pid, options, allowed, asChild);
  }

  /**
   * The same with other options.
   *
   * @param changed the options
   * @return a copy
   */
  public RestoreRequest with(RestoreOptions changed) {
    return new RestoreRequest(images, work, pid, changed, plugin, asChild);
  }

  /**
   * The same for a root that becomes a child of this JVM.
   *
   * @param child whether it does
   * @return a copy
   */
  public RestoreRequest asChild(boolean child) {
    return new RestoreRequest(images, work, pid, options, plugin, child);
  }
}
