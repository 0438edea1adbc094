package dev.gpuprocess.internal.image;

import java.io.IOException;
import java.nio.file.Path;

/**
 * A change after which an image must be refused.
 *
 * @param name the change
 * @param change applies the change
 */
record Mutant(String name, Change change) {

  /** Changes the image in the first directory; other files go into the second. */
  interface Change {
    void to(Path image, Path outside) throws IOException, InterruptedException;
  }
}
