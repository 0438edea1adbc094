package dev.gpuprocess.criu.internal.restore;

import java.nio.file.Files;
import java.nio.file.Path;

/** Where a lazy-pages helper waits for its restore, which takes the socket away. */
public final class LazyPagesSocket {

  /** Its name in the work directory. */
  public static final String NAME = "lazy-pages.socket";

  private LazyPagesSocket() {}

  /** Whether a helper listens there. */
  static boolean isIn(Path work) {
    return Files.exists(work.resolve(NAME));
  }
}
