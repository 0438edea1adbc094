package dev.gpuprocess.error;

import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The process tree has something that CRIU cannot dump, or only with an option that was not given;
 * {@link #resources()} names each of them.
 */
public class UnsupportedResourceException extends CriuException {

  private static final long serialVersionUID = 1L;

  private final transient List<UnsupportedResource> resources;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried, on whom, and what came of it
   * @param criu what CRIU answered and logged; {@link CriuFailure#NOT_STARTED} when it was not
   *     asked
   * @param resources what stands in the way, at least one
   * @param cause what was caught, or null
   */
  public UnsupportedResourceException(
      String message,
      Failure failure,
      CriuFailure criu,
      List<UnsupportedResource> resources,
      @Nullable Throwable cause) {
    super(message, failure, criu, cause);
    this.resources = List.copyOf(resources);
  }

  /**
   * What stands in the way.
   *
   * @return each descriptor, mapping or socket, with the option that allows it
   */
  public final List<UnsupportedResource> resources() {
    return resources;
  }
}
