package dev.gpuprocess.spi;

import dev.gpuprocess.options.PageEndpoint;

/**
 * CRIU at the receiving end of a dump: it listens for one sender, and writes the memory pages that
 * arrive into a directory.
 */
public interface PageReceiver extends AutoCloseable {

  /** {@return where it listens} */
  PageEndpoint endpoint();

  /**
   * Waits until a sender has connected and disconnected, and all pages are on disk.
   *
   * @throws dev.gpuprocess.error.OperationTimedOutException when the deadline passed
   * @throws dev.gpuprocess.error.OperationCancelledException when another thread closed this
   * @throws dev.gpuprocess.error.ImageException when pages are missing
   * @throws dev.gpuprocess.error.CriuException when the transfer failed
   */
  void await();

  /** Ends it, whatever it is doing; what has arrived stays. */
  @Override
  void close();
}
