package dev.gpuprocess.criu.internal.process;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * A log of CRIU, which CRIU makes with a mode that lets its user alone read it. If that is root and
 * we are not, the file is made by us before: CRIU writes into one that is there.
 */
public final class LogFile {

  private LogFile() {}

  /** Makes it empty and ours, unless CRIU's will be ours anyway. */
  public static void create(Path file) throws IOException {
    Files.deleteIfExists(file);
    if (!ProgramTrust.weAreRoot()) {
      Files.createFile(file);
    }
  }
}
