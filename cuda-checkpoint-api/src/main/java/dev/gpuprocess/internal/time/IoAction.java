package dev.gpuprocess.internal.time;

import java.io.IOException;

/** Does something, or fails with an {@link IOException}. */
@FunctionalInterface
public interface IoAction {
  void run() throws IOException;
}
