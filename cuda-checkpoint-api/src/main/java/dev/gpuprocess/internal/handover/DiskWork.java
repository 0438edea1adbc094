package dev.gpuprocess.internal.handover;

import java.util.function.Consumer;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** How work is done that touches a disk, which may hang. Safe for use by two threads. */
@FunctionalInterface
public interface DiskWork {

  /**
   * Does it within the limit of the dump.
   *
   * @param undo called with the result when the work ends after this has thrown; with null when it
   *     failed
   */
  <T> T run(Supplier<T> work, Consumer<@Nullable T> undo);
}
