package dev.gpuprocess.criu.internal.process;

import dev.gpuprocess.internal.linux.CurrentUser;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * A CRIU log. CRIU creates it readable only by its own user; if that is root and we are not, we
 * create the file first, and CRIU writes into the existing one.
 */
public final class LogFile {

  private LogFile() {}

  /** Removes an old log, and creates an empty one of ours unless CRIU's will be ours anyway. */
  public static void create(Path file) throws IOException {
    Files.deleteIfExists(file);
    if (!CurrentUser.isRoot()) {
      Files.createFile(file);
    }
  }
}
