package dev.gpuprocess.error;

import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.cuda.ProcessState;
import java.io.Serializable;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * The data of a failed operation. Immutable.
 *
 * @param operation the verb, such as {@code lock} or {@code dump}
 * @param pid the process, 0 when no process is concerned
 * @param before the driver's state before the operation, null where it was not read
 * @param after the driver's state afterwards, null where it could not be read
 * @param elapsed how long the operation took until it failed
 * @param cudaResult the driver's answer, null where no driver call failed
 * @param fate what became of the process in a dump or restore, null for other operations
 */
public record Failure(
    String operation,
    long pid,
    @Nullable ProcessState before,
    @Nullable ProcessState after,
    Duration elapsed,
    @Nullable CudaResult cudaResult,
    @Nullable Fate fate)
    implements Serializable {

  /**
   * A failure about which nothing else is known.
   *
   * @param operation the verb
   * @param pid the process, 0 when no process is concerned
   * @return the data
   */
  public static Failure of(String operation, long pid) {
    return new Failure(operation, pid, null, null, Duration.ZERO, null, null);
  }
}
