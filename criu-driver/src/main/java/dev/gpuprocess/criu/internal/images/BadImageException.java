package dev.gpuprocess.criu.internal.images;

import java.io.IOException;

/** A file that CRIU cannot have written like this. */
public final class BadImageException extends IOException {

  private static final long serialVersionUID = 1L;

  BadImageException(String message) {
    super(message);
  }
}
