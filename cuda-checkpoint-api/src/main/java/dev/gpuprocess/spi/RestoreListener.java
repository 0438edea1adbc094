package dev.gpuprocess.spi;

/**
 * Notified of the stages of a restore, in this order, on the thread that called restore. CRIU waits
 * until a method returns.
 *
 * <p>A method that declares {@link VetoException} can stop the restore by throwing that or anything
 * else: nothing is left of the tree, and the restore throws an exception whose cause is what was
 * thrown. A method that does not declare it is called too late for that: CRIU goes on, and what was
 * thrown is rethrown when the restore has ended, with the tree running.
 */
public interface RestoreListener {

  /** A listener that does nothing. */
  RestoreListener NONE = new RestoreListener() {};

  /**
   * Called before anything is created ({@code pre-restore}).
   *
   * @throws VetoException to stop the restore
   */
  default void preRestore() throws VetoException {}

  /**
   * The root and its namespaces exist ({@code setup-namespaces}). Not called for a tree that has no
   * namespaces of its own.
   *
   * @param pid the root, in CRIU's pid namespace
   * @throws VetoException to stop the restore
   */
  default void setupNamespaces(int pid) throws VetoException {}

  /**
   * The namespaces are set up ({@code post-setup-namespaces}). Not called for a tree that has no
   * namespaces of its own.
   *
   * @throws VetoException to stop the restore
   */
  default void postSetupNamespaces() throws VetoException {}

  /**
   * The tree is complete but does not run yet ({@code post-restore}).
   *
   * @param pid its root, in CRIU's pid namespace
   * @throws VetoException to stop the restore
   */
  default void postRestore(int pid) throws VetoException {}

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
