package dev.gpuprocess.criu.internal.restore;

import java.nio.file.Files;
import java.nio.file.Path;

/** The socket on which a lazy-pages helper waits for its restore, which removes it. */
public final class LazyPagesSocket {

  /** Its name in the work directory. */
  public static final String NAME = "lazy-pages.socket";

  private LazyPagesSocket() {}

  /** Whether a helper is listening there. */
  static boolean isIn(Path work) {
    return Files.exists(work.resolve(NAME));
  }
}
