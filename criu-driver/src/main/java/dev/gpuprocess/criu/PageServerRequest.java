package dev.gpuprocess.criu;

import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.options.PageEndpoint;
import java.nio.file.Path;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * A page server to start.
 *
 * @param images an existing directory for the memory pages
 * @param work an existing directory for CRIU's log
 * @param endpoint an address of this machine, and a port; 0 has the kernel pick one
 * @param parentImages the pages of the previous round, relative to the images directory; null for
 *     none
 * @param deadline how long it may take until everything has arrived, including the wait for the
 *     sender
 */
public record PageServerRequest(
    Path images, Path work, PageEndpoint endpoint, @Nullable Path parentImages, Duration deadline) {

  /**
   * Checks the arguments.
   *
   * @throws IllegalArgumentException for an absolute parent, as the images could not be moved, and
   *     for a deadline that is not positive
   */
  public PageServerRequest {
    if (parentImages != null && parentImages.isAbsolute()) {
      throw new IllegalArgumentException(
          "the parent must be relative to the images directory, not " + parentImages);
    }
    if (deadline.isNegative() || deadline.isZero()) {
      throw new IllegalArgumentException(
          "the deadline must be positive, not " + Printable.of(deadline));
    }
  }

  /**
   * Creates a request for a dump without a parent.
   *
   * @param images an existing directory for the memory pages
   * @param work an existing directory for CRIU's log
   * @param endpoint an address of this machine, and a port; 0 has the kernel pick one
   * @param deadline how long it may take until everything has arrived
   */
  public PageServerRequest(Path images, Path work, PageEndpoint endpoint, Duration deadline) {
    this(images, work, endpoint, null, deadline);
  }
}
