package dev.gpuprocess.spi;

import dev.gpuprocess.options.External;
import java.util.List;

/**
 * Told how a dump goes, in this order, on the thread that called dump. CRIU waits meanwhile, and
 * from the second method on the tree stands still.
 *
 * <p>A method that declares {@link VetoException} can stop the dump by throwing, that or anything:
 * the tree runs on, and what was thrown comes back as the cause of the exception that the dump
 * throws. A method that does not declare it is told what happens anyway; what it throws comes back
 * after the dump has ended.
 */
public interface DumpListener {

  /** A listener that does nothing. */
  DumpListener NONE = new DumpListener() {};

  /**
   * Before anything is stopped ({@code pre-dump}).
   *
   * @throws VetoException to stop the dump
   */
  default void preDump() throws VetoException {}

  /**
   * The tree is stopped, and its own network namespace shall be locked now ({@code network-lock}).
   * Not called for a tree in CRIU's network namespace.
   *
   * @throws VetoException to stop the dump
   */
  default void networkLock() throws VetoException {}

  /**
   * The tree is stopped, and its files are looked at next ({@code query-ext-files}). Not called by
   * a driver that starts CRIU as a command: CRIU asks over its RPC only.
   *
   * @return what else is not part of the tree, in addition to the options
   * @throws VetoException to stop the dump
   */
  default List<External> queryExternalFiles() throws VetoException {
    return List.of();
  }

  /**
   * The images are complete except for the statistics; the tree is frozen and still there ({@code
   * post-dump}). When this returns, the tree may die.
   *
   * @throws VetoException to stop the dump
   */
  default void postDump() throws VetoException {}

  /**
   * The memory can be fetched now ({@code status-ready}). Called after {@link #postDump}, and only
   * with {@link dev.gpuprocess.options.DumpOptions#lazyPages()}; the dump goes on once somebody
   * fetches.
   *
   * @throws VetoException to stop the dump; the tree runs on
   */
  default void pagesReady() throws VetoException {}

  /**
   * The network namespace shall be open again, because the tree runs on ({@code network-unlock}).
   * Not called for a tree in CRIU's network namespace, nor when the tree is about to die.
   */
  default void networkUnlock() {}
}
