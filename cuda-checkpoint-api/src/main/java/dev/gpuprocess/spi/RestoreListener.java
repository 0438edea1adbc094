package dev.gpuprocess.spi;

/**
 * Notified of the stages of a restore, in this order, on the thread that called restore. CRIU waits
 * until a method returns.
 *
 * <p>A method up to {@link #postRestore} stops the restore by throwing anything: nothing is left of
 * the tree, and the restore throws an exception whose cause is what was thrown. The later methods
 * are called too late for that: CRIU goes on, and what they throw is rethrown when the restore has
 * ended, with the tree running.
 */
public interface RestoreListener {

  /** A listener that does nothing. */
  RestoreListener NONE = new RestoreListener() {};

  /** Called before anything is created ({@code pre-restore}). */
  default void preRestore() {}

  /**
   * The root and its namespaces exist ({@code setup-namespaces}). Not called for a tree that has no
   * namespaces of its own.
   *
   * @param pid the root, in CRIU's pid namespace
   */
  default void setupNamespaces(int pid) {}

  /**
   * The namespaces are set up ({@code post-setup-namespaces}). Not called for a tree that has no
   * namespaces of its own.
   */
  default void postSetupNamespaces() {}

  /**
   * The tree is complete but does not run yet ({@code post-restore}).
   *
   * @param pid its root, in CRIU's pid namespace
   */
  default void postRestore(int pid) {}

  /**
   * The tree's own network namespace is to be unlocked ({@code network-unlock}). Not called for a
   * tree in CRIU's network namespace.
   */
  default void networkUnlock() {}

  /** Called just before the tree runs ({@code pre-resume}). */
  default void preResume() {}

  /** The tree runs ({@code post-resume}). */
  default void postResume() {}
}
