package dev.gpuprocess.criu.internal.linux;

import dev.gpuprocess.internal.linux.NativeLibraries;
import java.nio.file.Path;
import jnr.posix.FileStat;
import jnr.posix.POSIX;
import jnr.posix.POSIXFactory;

/**
 * What only jnr-posix offers: the fields of {@code struct stat} that the JDK does not return.
 * Loading it takes a third of a second, so it is used only for files that need it.
 */
public final class Posix {

  private static final int BLOCK_BYTES = 512;

  private static final POSIX LIBRARY;

  static {
    NativeLibraries.prepare();
    LIBRARY = POSIXFactory.getNativePOSIX();
  }

  private Posix() {}

  /** Returns how many bytes a file takes on its disk; 0 if it is gone. */
  public static long allocatedBytes(Path file) {
    FileStat stat = LIBRARY.allocateStat();
    return LIBRARY.stat(file.toString(), stat) == 0 ? stat.blocks() * BLOCK_BYTES : 0;
  }
}
