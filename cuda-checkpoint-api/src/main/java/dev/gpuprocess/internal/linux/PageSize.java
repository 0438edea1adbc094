package dev.gpuprocess.internal.linux;

/** The page size of this machine. */
public final class PageSize {

  /** Asked of the C library: a file could not be read while this JVM has no descriptor left. */
  public static final long BYTES = Libc.LIBRARY.getpagesize();

  private PageSize() {}
}
