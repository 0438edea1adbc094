package dev.gpuprocess.internal.dump;

import dev.gpuprocess.internal.store.LogDirectory;
import dev.gpuprocess.spi.RestoreListener;

/** The memory of an image that does not hold its own. */
interface MissingMemory {

  /**
   * Called before CRIU begins.
   *
   * @param log the restore's, which is not removed when it has succeeded
   */
  void prepare(LogDirectory log);

  /**
   * Is told of the stages of the restore as well.
   *
   * @param first who is told before
   */
  RestoreListener told(RestoreListener first);
}
