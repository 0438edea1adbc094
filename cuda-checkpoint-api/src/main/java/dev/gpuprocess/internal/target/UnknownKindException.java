package dev.gpuprocess.internal.target;

import java.io.IOException;

/** A table of a process is malformed, too large, or not of the kind that this library can use. */
public final class UnknownKindException extends IOException {

  private static final long serialVersionUID = 1L;

  UnknownKindException(String message) {
    super(message);
  }
}
