package dev.gpuprocess.criu.internal.linux;

import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.options.Cancellation;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * Lets a {@link Cancellation} end a poll: a descriptor that becomes readable once it is cancelled.
 */
public final class Wakeup implements AutoCloseable {

  /** Never wakes anything. */
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
    // The write fails only if the counter is full, and then it is readable anyway.
    Libc.functions().write(event, ONE, ONE.length);
  }

  /**
   * The descriptor to poll; -1 for none. Also -1 once cancelled, as poll would then return at once
   * forever.
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
