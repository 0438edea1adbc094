package dev.gpuprocess.internal.time;

import java.io.IOException;

/** Returns a value, or fails with an {@link IOException}. */
@FunctionalInterface
public interface IoSupplier<T> {
  T get() throws IOException;
}
