package dev.gpuprocess.internal.handover;

import java.io.IOException;
import org.jspecify.annotations.Nullable;

/**
 * A process could not be held, or not be given a descriptor, or has nothing that can be handed
 * over. Nothing happened to it.
 */
public final class NotHeldException extends IOException {

  private static final long serialVersionUID = 1;

  NotHeldException(String message, @Nullable Exception cause) {
    super(message, cause);
  }
}
