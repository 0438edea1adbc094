package dev.gpuprocess.error;

import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The process tree has something that CRIU cannot dump, or only with an option that was not given;
 * {@link #resources()} lists them.
 */
public class UnsupportedResourceException extends CriuException {

  private static final long serialVersionUID = 1L;

  private final transient List<UnsupportedResource> resources;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param criu what CRIU answered and logged; {@link CriuFailure#NOT_STARTED} when it was not
   *     asked
   * @param resources the resources that prevent the dump, at least one
   * @param cause what was caught, or null
   */
  public UnsupportedResourceException(
      String message,
      Failure failure,
      CriuFailure criu,
      List<UnsupportedResource> resources,
      @Nullable Throwable cause) {
    super(Reason.UNSUPPORTED_RESOURCE, message, failure, criu, cause);
    this.resources = List.copyOf(resources);
  }

  /**
   * The resources that prevent the dump.
   *
   * @return each descriptor, mapping or socket, with the option with which it is dumped
   */
  public final List<UnsupportedResource> resources() {
    return resources;
  }
}
