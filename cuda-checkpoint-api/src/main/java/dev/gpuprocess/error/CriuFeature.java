package dev.gpuprocess.error;

/** What CRIU can do on one kernel and not on another ({@code criu check --feature}). */
public enum CriuFeature {
  /**
   * The kernel notes which pages are written, so that a dump can hold only what has changed since
   * the one before: pre-dumps, {@link dev.gpuprocess.options.DumpOptions#trackMemory()}.
   */
  MEMORY_TRACKING,
  /** Memory can follow a restored tree when it asks for it ({@code userfaultfd}). */
  LAZY_PAGES,
  /** A pid that another process got between two pre-dumps is noticed ({@code pidfd_open}). */
  PIDFD_STORE
}
