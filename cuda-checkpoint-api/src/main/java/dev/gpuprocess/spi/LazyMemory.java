package dev.gpuprocess.spi;

import java.io.InputStream;
import java.io.OutputStream;

/**
 * The helper of a restore with {@link RestoreFlag#LAZY_PAGES}: it fetches the memory of the
 * restored tree from the dump on the other host.
 */
public interface LazyMemory extends AutoCloseable {

  /**
   * What the helper says to the dump, without the last word, by which it lets the dumped tree die:
   * that is answered here, and the one who passes on the rest says it when {@link #await} has
   * returned. So the dumped tree lives until it is known that all is well.
   *
   * @param said what the helper says
   * @param answers where it hears the answer
   * @return what it says but for that, and then the end
   */
  InputStream requests(InputStream said, OutputStream answers);

  /**
   * Waits until the tree has all of its memory.
   *
   * @throws dev.gpuprocess.error.OperationTimedOutException when the deadline passed; the helper
   *     keeps running, as the tree needs it
   * @throws dev.gpuprocess.error.OperationCancelledException when another thread closed this
   * @throws dev.gpuprocess.error.CriuException when the helper failed; the tree lacks memory then
   */
  void await();

  /** Ends the helper. A tree that lacks memory must have been ended before. */
  @Override
  void close();
}
