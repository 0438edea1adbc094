package dev.gpuprocess.options;

/** How a pre-dump takes the memory of a tree (CRIU {@code pre-dump-mode}). */
public enum PreDumpMode {
  /** Through pipes while the tree is stopped. */
  SPLICE,
  /**
   * By reading it while the tree runs again: the tree is stopped for a shorter time, but the
   * pre-dump takes longer.
   */
  READ
}
