package dev.gpuprocess.options;

/** How a pre-dump takes the memory of a tree (CRIU {@code pre-dump-mode}). */
public enum PreDumpMode {
  /** Through pipes while the tree stands still. */
  SPLICE,
  /** By reading it while the tree runs again: a shorter stop, more time. */
  READ
}
