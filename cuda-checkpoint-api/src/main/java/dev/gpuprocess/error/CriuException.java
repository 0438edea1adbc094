package dev.gpuprocess.error;

import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** CRIU failed; {@link #criu()} has its answer and the lines of its log that matter. */
public class CriuException extends FixAndRetryException {

  private static final long serialVersionUID = 1L;

  /** How CRIU failed. */
  public enum Reason implements GpuCheckpointException.Reason {
    /** CRIU answered that the operation failed; the message has the first error of its log. */
    FAILED,

    /**
     * CRIU was killed by a signal before it could answer: it has a bug, or another process killed
     * it.
     */
    CRASHED,

    /** CRIU lacks a capability that it needs here. */
    MISSING_CAPABILITY,

    /**
     * The process tree has something that CRIU cannot dump, or only with an option that was not
     * given.
     */
    UNSUPPORTED_RESOURCE
  }

  private static final int NO_SIGNAL = 0;

  private final CriuFailure criu;
  private final int signal;

  @SuppressWarnings("serial") // an immutable copy, which is serializable
  private final Set<String> capabilities;

  @SuppressWarnings("serial") // an immutable copy, which is serializable
  private final List<UnsupportedResource> resources;

  /**
   * Creates the exception with reason {@link Reason#FAILED}.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param criu what CRIU answered and logged
   * @param cause what was caught, or null
   */
  public CriuException(
      String message, Failure failure, CriuFailure criu, @Nullable Throwable cause) {
    this(Reason.FAILED, message, failure, criu, NO_SIGNAL, Set.of(), List.of(), cause);
  }

  private CriuException(
      Reason reason,
      String message,
      Failure failure,
      CriuFailure criu,
      int signal,
      Set<String> capabilities,
      List<UnsupportedResource> resources,
      @Nullable Throwable cause) {
    super(reason, message, failure, cause);
    this.criu = criu;
    this.signal = signal;
    this.capabilities = Set.copyOf(capabilities);
    this.resources = List.copyOf(resources);
  }

  /**
   * Creates the exception with reason {@link Reason#CRASHED}.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param criu what CRIU logged before it was killed
   * @param signal the signal that killed CRIU
   * @return the exception
   */
  public static CriuException crashed(
      String message, Failure failure, CriuFailure criu, int signal) {
    return new CriuException(
        Reason.CRASHED, message, failure, criu, signal, Set.of(), List.of(), null);
  }

  /**
   * Creates the exception with reason {@link Reason#MISSING_CAPABILITY}.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param criu what CRIU answered and printed
   * @param capabilities the names of the capabilities of which CRIU needs one, such as {@code
   *     CAP_SYS_ADMIN}
   * @return the exception
   */
  public static CriuException missingCapability(
      String message, Failure failure, CriuFailure criu, Set<String> capabilities) {
    return new CriuException(
        Reason.MISSING_CAPABILITY,
        message,
        failure,
        criu,
        NO_SIGNAL,
        capabilities,
        List.of(),
        null);
  }

  /**
   * Creates the exception with reason {@link Reason#UNSUPPORTED_RESOURCE}.
   *
   * @param message one sentence
   * @param failure what was tried on which process, and the outcome
   * @param criu what CRIU answered and logged; {@link CriuFailure#NOT_STARTED} when it was not
   *     started
   * @param resources the resources that prevent the dump, at least one
   * @param cause what was caught, or null
   * @return the exception
   */
  public static CriuException unsupportedResource(
      String message,
      Failure failure,
      CriuFailure criu,
      List<UnsupportedResource> resources,
      @Nullable Throwable cause) {
    return new CriuException(
        Reason.UNSUPPORTED_RESOURCE, message, failure, criu, NO_SIGNAL, Set.of(), resources, cause);
  }

  /**
   * Returns how CRIU failed.
   *
   * @return for programs; {@link #criu()} has the details
   */
  @Override
  public final Reason reason() {
    return (Reason) super.reason();
  }

  /**
   * Returns what CRIU answered and logged.
   *
   * @return the data behind the message; never empty
   */
  @Override
  public final Optional<CriuFailure> criu() {
    return Optional.of(criu);
  }

  /**
   * Returns the signal that killed CRIU.
   *
   * @return such as 11 for a segmentation fault; empty unless CRIU crashed
   */
  public final OptionalInt signal() {
    return signal == NO_SIGNAL ? OptionalInt.empty() : OptionalInt.of(signal);
  }

  /**
   * Returns the capabilities of which CRIU needs one.
   *
   * @return their names, such as {@code CAP_SYS_ADMIN}; empty unless a capability is missing
   */
  public final Set<String> capabilities() {
    return capabilities;
  }

  /**
   * Returns the resources that prevent the dump.
   *
   * @return each descriptor, mapping or socket, with the option with which it is dumped; empty
   *     unless the tree has an unsupported resource
   */
  public final List<UnsupportedResource> resources() {
    return resources;
  }
}
