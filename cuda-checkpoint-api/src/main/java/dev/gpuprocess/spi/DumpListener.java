package dev.gpuprocess.spi;

import dev.gpuprocess.options.External;
import java.util.List;

/**
 * Notified of the stages of a dump, in this order, on the thread that called dump. CRIU waits until
 * a method returns, and the tree is stopped from the second method on.
 *
 * <p>A driver may repeat a dump that failed before {@link #postDump}, such as when the tree had not
 * accepted a connection yet: the stages before it are then notified again.
 *
 * <p>A method that declares {@link VetoException} can stop the dump by throwing that or anything
 * else: the tree runs on, and the dump throws an exception whose cause is what was thrown. A method
 * that does not declare it cannot stop anything; what it throws is rethrown when the dump has
 * ended.
 */
public interface DumpListener {

  /** A listener that does nothing. */
  DumpListener NONE = new DumpListener() {};

  /**
   * Called before anything is stopped ({@code pre-dump}).
   *
   * @throws VetoException to stop the dump
   */
  default void preDump() throws VetoException {}

  /**
   * The tree is stopped, and its own network namespace is to be locked now ({@code network-lock}).
   * Not called for a tree in CRIU's network namespace.
   *
   * @throws VetoException to stop the dump
   */
  default void networkLock() throws VetoException {}

  /**
   * The tree is stopped, and CRIU will look at its files next ({@code query-ext-files}). Not called
   * by a driver that starts CRIU as a command: CRIU asks over its RPC only.
   *
   * @return further resources that are not part of the tree, in addition to those in the options
   * @throws VetoException to stop the dump
   */
  default List<External> queryExternalFiles() throws VetoException {
    return List.of();
  }

  /**
   * The images are complete except for the statistics; the tree is stopped and still exists ({@code
   * post-dump}). When this returns, the tree may die.
   *
   * @throws VetoException to stop the dump
   */
  default void postDump() throws VetoException {}

  /**
   * The network namespace is to be unlocked, because the tree runs on ({@code network-unlock}). Not
   * called for a tree in CRIU's network namespace, nor when the tree is about to die.
   */
  default void networkUnlock() {}
}
