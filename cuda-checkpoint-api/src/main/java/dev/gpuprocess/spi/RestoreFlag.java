package dev.gpuprocess.spi;

/**
 * What only a restore of CRIU's own images can do. A restore with {@link
 * dev.gpuprocess.ProcessImage} has all memory at hand, leaves the image as it is, and tells its
 * stages to nobody.
 */
public enum RestoreFlag {
  /**
   * Pages are removed from the images as they are restored, so that the images cannot be restored
   * again (CRIU {@code auto-dedup}).
   */
  AUTO_DEDUP,
  /**
   * {@link RestoreListener#orphanTerminal} takes terminals whose other end was outside the tree
   * (CRIU {@code orphan-pts-master}).
   */
  ORPHAN_TERMINALS
}
