package dev.gpuprocess.internal.reservation;

/** A map of GPUs that is not possible on this machine. The message is the reason. */
final class ImpossibleMapException extends Exception {

  private static final long serialVersionUID = 1L;

  ImpossibleMapException(String message) {
    super(message);
  }
}
