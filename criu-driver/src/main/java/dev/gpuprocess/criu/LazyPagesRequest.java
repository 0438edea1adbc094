package dev.gpuprocess.criu;

import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.options.PageEndpoint;
import java.nio.file.Path;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * A lazy-pages helper to start.
 *
 * @param images the images that will be restored
 * @param work the work directory of that restore
 * @param source the endpoint of a dump with {@link dev.gpuprocess.spi.DumpMemory#lazyPages()}; null
 *     if all pages are in the images
 * @param deadline how long it may take until the tree has all of its memory
 */
public record LazyPagesRequest(
    Path images, Path work, @Nullable PageEndpoint source, Duration deadline) {

  /**
   * Makes the paths absolute.
   *
   * @throws IllegalArgumentException for a deadline that is not positive
   */
  public LazyPagesRequest {
    images = images.toAbsolutePath();
    work = work.toAbsolutePath();
    if (deadline.isNegative() || deadline.isZero()) {
      throw new IllegalArgumentException(
          "the deadline must be positive, not " + Printable.of(deadline));
    }
  }
}
