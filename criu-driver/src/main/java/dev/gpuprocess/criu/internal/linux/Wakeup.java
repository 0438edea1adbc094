package dev.gpuprocess.criu.internal.linux;

import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.options.Cancellation;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * A descriptor that becomes readable, and so ends a poll, when a {@link Cancellation} is cancelled.
 */
public final class Wakeup implements AutoCloseable {

  /** An instance without a cancellation. */
  public static final Wakeup NEVER = new Wakeup(null, -1);

  private static final byte[] ONE = {1, 1, 1, 1, 1, 1, 1, 1}; // any number but 0

  private final @Nullable Cancellation cancellation;
  private final Cancellation.@Nullable Registration registration;
  private final int event;

  private Wakeup(@Nullable Cancellation cancellation, int event) {
    this.cancellation = cancellation;
    this.event = event;
    this.registration = cancellation == null ? null : cancellation.onCancel(this::wake);
  }

  public static Wakeup by(Optional<Cancellation> cancellation) throws NativeCallException {
    if (cancellation.isEmpty()) {
      return NEVER;
    }
    return new Wakeup(
        cancellation.get(),
        Libc.check(Libc.functions().eventfd(0, Libc.O_CLOEXEC | Libc.O_NONBLOCK), "eventfd"));
  }

  private void wake() {
    // The write fails only if the counter is full, and then the descriptor is readable anyway.
    Libc.functions().write(event, ONE, ONE.length);
  }

  /**
   * Returns the descriptor to poll; -1 for none, and once cancelled, because poll would then always
   * return at once.
   */
  public int descriptor() {
    return isCancelled() ? -1 : event;
  }

  public boolean isCancelled() {
    return cancellation != null && cancellation.isCancelled();
  }

  @Override
  public void close() {
    if (registration != null) {
      registration.close();
    }
    Libc.close(event);
  }
}
