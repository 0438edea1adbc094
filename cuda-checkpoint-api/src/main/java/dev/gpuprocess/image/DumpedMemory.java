package dev.gpuprocess.image;

import java.util.Locale;

/**
 * The memory of one kind that a process had.
 *
 * @param kind the kind
 * @param mappings how many mappings of it there are
 * @param mapped their size in bytes
 * @param dumped how much of it is in the images, in bytes; memory that was never touched or that a
 *     file backs is not
 */
public record DumpedMemory(Kind kind, int mappings, long mapped, long dumped) {

  /** The kinds. */
  public enum Kind {
    /** Private memory that no file backs, the heap included. */
    ANONYMOUS,
    /** The stack of the first thread. */
    STACK,
    /** Memory that processes share and that no file backs. */
    SHARED,
    /** System V shared memory. */
    SYSTEM_V,
    /** An anonymous file in memory ({@code memfd_create}). */
    MEMFD,
    /** A file mapped privately; only changed pages are dumped. */
    FILE_PRIVATE,
    /** A file mapped as shared. */
    FILE_SHARED,
    /** What the kernel puts there: vdso and its data. */
    KERNEL,
    /** Something else. */
    OTHER
  }

  @Override
  public String toString() {
    return String.format(
        Locale.ROOT,
        "%s %.1f of %.1f MiB",
        kind.name().toLowerCase(Locale.ROOT).replace('_', ' '),
        dumped / 1048576.0,
        mapped / 1048576.0);
  }
}
