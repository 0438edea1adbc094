package dev.gpuprocess.internal.inherited;

import java.io.IOException;
import org.jspecify.annotations.Nullable;

/** A child cannot, or must not, lose what it holds of the GPU. The message says why. */
public final class NotReleasableException extends IOException {

  private static final long serialVersionUID = 1;

  NotReleasableException(String message, @Nullable Exception cause) {
    super(message, cause);
  }

  NotReleasableException(String message) {
    this(message, null);
  }
}
