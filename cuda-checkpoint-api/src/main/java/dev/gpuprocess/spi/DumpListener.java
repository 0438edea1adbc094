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
 * <p>A method stops the dump by throwing anything: the tree runs on, and the dump throws an
 * exception whose cause is what was thrown. Only {@link #networkUnlock} cannot stop it any more:
 * what it throws is rethrown when the dump has ended.
 */
public interface DumpListener {

  /** A listener that does nothing. */
  DumpListener NONE = new DumpListener() {};

  /** Called before anything is stopped ({@code pre-dump}). */
  default void preDump() {}

  /**
   * The tree is stopped, and its own network namespace is to be locked now ({@code network-lock}).
   * Not called for a tree in CRIU's network namespace.
   */
  default void networkLock() {}

  /**
   * The tree is stopped, and CRIU will look at its files next ({@code query-ext-files}). Not called
   * by a driver that starts CRIU as a command: CRIU asks over its RPC only.
   *
   * @return further resources that are not part of the tree, in addition to those in the options
   */
  default List<External> queryExternalFiles() {
    return List.of();
  }

  /**
   * The images are complete except for the statistics; the tree is stopped and still exists ({@code
   * post-dump}). When this returns, the tree may die.
   */
  default void postDump() {}

  /**
   * The network namespace is to be unlocked, because the tree runs on ({@code network-unlock}). Not
   * called for a tree in CRIU's network namespace, nor when the tree is about to die.
   */
  default void networkUnlock() {}
}
