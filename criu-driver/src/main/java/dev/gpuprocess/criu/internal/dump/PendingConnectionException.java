package dev.gpuprocess.criu.internal.dump;

import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.CriuFailure;
import dev.gpuprocess.error.Failure;

/**
 * A connection to a unix socket of the tree had not been accepted when CRIU stopped the tree. CRIU
 * cannot dump what was sent over such a connection.
 */
final class PendingConnectionException extends CriuException {

  private static final long serialVersionUID = 1L;

  PendingConnectionException(String message, Failure failure, CriuFailure criu) {
    super(message, failure, criu, null);
  }
}
