package dev.gpuprocess.dumped;

import java.util.Locale;

/**
 * Memory of one kind.
 *
 * @param kind the kind
 * @param mappings how many mappings of it there are
 * @param mapped their size in bytes
 * @param dumped how much of it is in the images, in bytes; what files back, or was never touched,
 *     is not
 * @param inParent how much of it is in the images of an earlier pre-dump, in bytes
 */
public record DumpedMemory(Kind kind, int mappings, long mapped, long dumped, long inParent) {

  /** The kinds. */
  public enum Kind {
    /** Private memory that no file backs, the heap included. */
    ANONYMOUS,
    /** The stack of the first thread. */
    STACK,
    /** Memory without a file that processes share. */
    SHARED,
    /** System V shared memory. */
    SYSTEM_V,
    /** A file of memory ({@code memfd_create}). */
    MEMFD,
    /** A file mapped privately; what was changed is dumped. */
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
