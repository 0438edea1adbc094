package dev.gpuprocess.criu.internal.process;

import dev.gpuprocess.criu.internal.process.Conversation.Answer;
import dev.gpuprocess.criu.internal.process.Conversation.Stage;
import org.jspecify.annotations.Nullable;

/**
 * Notifications that are passed to a listener. Its first exception or error stops the request, and
 * becomes the cause of its failure.
 */
public abstract class ListenerStages implements Conversation.Notifications {

  private @Nullable Throwable thrown;

  /** Passes one stage to the listener, and returns the answer to it. */
  protected abstract Answer notify(Stage stage) throws Exception;

  @Override
  public Answer reached(Stage stage) {
    if (thrown != null) {
      return Answer.NO;
    }
    try {
      return notify(stage);
    } catch (Throwable t) {
      thrown = t;
      return Answer.NO;
    }
  }

  /** Returns the exception of the listener, or null. */
  public final @Nullable Throwable thrown() {
    return thrown;
  }
}
