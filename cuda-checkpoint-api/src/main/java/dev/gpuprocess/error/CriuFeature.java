package dev.gpuprocess.error;

/** Something that CRIU can do on some kernels only ({@code criu check --feature}). */
public enum CriuFeature {
  /**
   * The kernel tracks which pages are written, so that a dump can contain only what has changed
   * since the previous one: pre-dumps, {@link dev.gpuprocess.spi.DumpMemory#trackMemory()}.
   */
  MEMORY_TRACKING,
  /** A restored tree can fetch memory when it uses it ({@code userfaultfd}). */
  LAZY_PAGES,
  /** CRIU notices that a pid was reused between two pre-dumps ({@code pidfd_open}). */
  PIDFD_STORE
}
