package dev.gpuprocess.options;

import java.util.Locale;

/**
 * A property of a process that CRIU does not restore. Those that the process can set by system
 * calls are lost only where no such call can be made in it. A dump refuses to lose some of them,
 * above all those that confine the process, unless the caller {@linkplain
 * DumpOptions.Builder#allowLoss(Attribute...) allows the loss}; the others are only named. The
 * {@linkplain dev.gpuprocess.image.Manifest#lost() manifest} records what an image lacks.
 */
public enum Attribute {
  /**
   * Confinement by Landlock ({@code landlock_restrict_self(2)}): the kernel does not show its
   * rules, so no restore can bring it back.
   */
  LANDLOCK(true),

  /** Memory-Deny-Write-Execute ({@code PR_SET_MDWE}). */
  MDWE(true),

  /** Sealed mappings ({@code mseal(2)}). */
  SEALED_MEMORY(true),

  /**
   * The content of a file that is mapped as shared memory, where an image cannot hold it: the file
   * is shared with a process outside of the tree, too large, or not accessible. Other files go into
   * the image.
   */
  SHARED_FILES(true),

  /**
   * Options of IP sockets and their multicast groups, where the controller may not duplicate
   * descriptors of the process ({@code pidfd_getfd(2)}). Otherwise they are carried.
   */
  SOCKET_OPTIONS(false),

  /**
   * Keys in a session, process or thread keyring of its own ({@code keyctl(2)}). The restored
   * process has the session keyring of the controller.
   */
  KEYRINGS(false),

  /** NUMA policies of threads and mappings ({@code set_mempolicy(2)}, {@code mbind(2)}). */
  NUMA_POLICY(false),

  /** An execution domain ({@code personality(2)}), such as the one of {@code setarch -R}. */
  PERSONALITY(false),

  /** Memory that KSM may merge ({@code PR_SET_MEMORY_MERGE}). */
  MEMORY_MERGE(false);

  private final boolean isRefused;

  Attribute(boolean isRefused) {
    this.isRefused = isRefused;
  }

  /** {@return whether a dump is refused that would lose it} */
  public boolean isRefused() {
    return isRefused;
  }

  /** {@return its name in manifests and on the command line, such as {@code sealed-memory}} */
  public String text() {
    return name().toLowerCase(Locale.ROOT).replace('_', '-');
  }
}
