package dev.gpuprocess.internal.image;

import java.io.IOException;
import java.nio.file.Path;

/**
 * A change that makes an image one that must be refused.
 *
 * @param name what is changed, and how
 * @param change changes an image
 */
record Mutant(String name, Change change) {

  /** Changes the image in this directory; what it needs besides goes into the other. */
  interface Change {
    void to(Path image, Path outside) throws IOException, InterruptedException;
  }
}
