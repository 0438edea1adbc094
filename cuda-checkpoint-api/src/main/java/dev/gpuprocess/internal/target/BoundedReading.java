package dev.gpuprocess.internal.target;

import dev.gpuprocess.internal.call.BoundedCall;
import dev.gpuprocess.internal.time.IoSupplier;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.concurrent.TimeoutException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads a process on a thread that can be abandoned: a page of a file system in user space, or of
 * userfaultfd, holds its reader in the kernel until the page is there, and no signal but SIGKILL
 * ends that. Safe for use by several threads.
 */
public final class BoundedReading {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** A reading takes milliseconds, except on an overloaded machine. */
  public static final Duration LIMIT = Duration.ofSeconds(10);

  /** The subject of abandoned calls; those about the process itself are of the driver. */
  private record Memory(ProcessIdentity process) {

    @Override
    public String toString() {
      return "the memory of process " + process.pid();
    }
  }

  private BoundedReading() {}

  /** Reads a process within {@link #LIMIT}. */
  public static <T> T run(ProcessIdentity process, IoSupplier<T> reading) throws IOException {
    return run(process, LIMIT, reading);
  }

  /**
   * Reads a process. While a reading that was abandoned has not ended, no other is begun.
   *
   * @param limit after which the reading is abandoned
   * @param reading changes nothing, here or in the process
   * @throws HeldReadingException at the limit, or if an earlier reading has not ended
   * @throws IOException if the reading throws it
   */
  public static <T> T run(ProcessIdentity process, Duration limit, IoSupplier<T> reading)
      throws IOException {
    Memory memory = new Memory(process);
    if (BoundedCall.hangs(memory)) {
      throw new HeldReadingException(process.pid());
    }
    try {
      return BoundedCall.run(
          memory,
          "reads process " + process.pid(),
          limit,
          () -> unchecked(reading),
          (value, failure) ->
              LOG.info("process {}: a reading of its memory ended late", process.pid(), failure));
    } catch (UncheckedIOException e) {
      throw e.getCause();
    } catch (TimeoutException e) {
      throw new HeldReadingException(process.pid());
    }
  }

  private static <T> T unchecked(IoSupplier<T> reading) {
    try {
      return reading.get();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
