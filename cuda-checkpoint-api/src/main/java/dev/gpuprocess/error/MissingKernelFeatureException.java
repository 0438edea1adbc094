package dev.gpuprocess.error;

import org.jspecify.annotations.Nullable;

/** What was asked for needs something that CRIU does not find in this kernel. */
public class MissingKernelFeatureException extends MachineUnfitException implements CriuReport {

  private static final long serialVersionUID = 1L;

  private final transient CriuFailure criu;

  private final CriuFeature feature;

  /**
   * Creates the exception.
   *
   * @param message one sentence
   * @param failure what was tried, on whom, and what came of it
   * @param criu what CRIU answered
   * @param feature what is missing
   * @param cause what was caught, or null
   */
  public MissingKernelFeatureException(
      String message,
      Failure failure,
      CriuFailure criu,
      CriuFeature feature,
      @Nullable Throwable cause) {
    super(message, failure, cause);
    this.criu = criu;
    this.feature = feature;
  }

  /** {@return what is missing} */
  public final CriuFeature feature() {
    return feature;
  }

  @Override
  public final CriuFailure criu() {
    return criu;
  }
}
