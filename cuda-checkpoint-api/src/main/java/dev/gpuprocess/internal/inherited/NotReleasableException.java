package dev.gpuprocess.internal.inherited;

import java.io.IOException;
import org.jspecify.annotations.Nullable;

/** The GPU device files of a child cannot be released. The message is the reason. */
public final class NotReleasableException extends IOException {

  private static final long serialVersionUID = 1;

  NotReleasableException(String message, @Nullable Exception cause) {
    super(message, cause);
  }

  NotReleasableException(String message) {
    this(message, null);
  }
}
