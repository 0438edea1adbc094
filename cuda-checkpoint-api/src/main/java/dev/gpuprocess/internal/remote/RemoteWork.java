package dev.gpuprocess.internal.remote;

import java.io.IOException;

/**
 * Work with a traced process, or with a thread of it.
 *
 * @param <S> what the work gets
 * @param <T> what the work returns
 */
@FunctionalInterface
public interface RemoteWork<S, T> {

  /**
   * Does the work, on the thread that traces. Threads of the process are stopped during the work.
   *
   * @throws UntraceableException if the traced thread was lost
   * @throws IOException if a call failed
   */
  T with(S subject) throws UntraceableException, IOException;
}
