package dev.gpuprocess.internal.time;

import java.io.IOException;

/** Returns a value for another, or fails with an {@link IOException}. */
@FunctionalInterface
public interface IoFunction<T, R> {
  R apply(T value) throws IOException;
}
