package dev.gpuprocess.internal.reservation;

/** A map of GPUs that cannot be followed on this machine; the message says why. */
final class ImpossibleMapException extends Exception {

  private static final long serialVersionUID = 1L;

  ImpossibleMapException(String message) {
    super(message);
  }
}
