package dev.gpuprocess.spi;

import dev.gpuprocess.options.RestoreOptions;
import java.nio.file.Path;

/**
 * A restore to make.
 *
 * @param images the directory with the image files
 * @param work an existing directory for CRIU's log and statistics
 * @param pid the pid that the root of the tree had and will have
 * @param options how to restore, with the deadline
 */
public record RestoreRequest(Path images, Path work, int pid, RestoreOptions options) {

  /**
   * Checks the options.
   *
   * @throws IllegalArgumentException when an image is expected that only a manifest could tell
   */
  public RestoreRequest {
    if (options.expectedLabel().isPresent() || options.expectedProcess().isPresent()) {
      throw new IllegalArgumentException(
          "CRIU's images have no label: to expect one, restore with ProcessImage");
    }
  }
}
