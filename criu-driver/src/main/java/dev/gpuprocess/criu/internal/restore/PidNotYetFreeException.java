package dev.gpuprocess.criu.internal.restore;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.PidTakenException;

/** A pid is taken although no process has it, or a session or group of that number. */
final class PidNotYetFreeException extends PidTakenException {

  private static final long serialVersionUID = 1L;

  PidNotYetFreeException(String message, Failure failure, Throwable cause) {
    super(message, failure, cause);
  }
}
