package dev.gpuprocess.image;

import dev.gpuprocess.internal.text.Printable;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/**
 * What an {@link dev.gpuprocess.ImageStore} found under one name: an image, or something else that
 * it leaves alone. Immutable.
 *
 * @param directory where it is
 * @param manifest what the image holds; null for what is not a complete image of this user's
 * @param problem why it is not one, as the end of a sentence about it; null for an image
 */
public record StoredImage(Path directory, @Nullable Manifest manifest, @Nullable String problem) {

  /**
   * Checks that it is one of the two.
   *
   * @throws IllegalArgumentException when it has both a manifest and a problem, or neither
   */
  public StoredImage {
    if ((manifest == null) == (problem == null)) {
      throw new IllegalArgumentException("an image has a manifest or a problem");
    }
  }

  /**
   * Whether it is an image that is complete, as far as its manifest tells. {@link
   * dev.gpuprocess.ImageStore#verify} reads the rest.
   *
   * @return false for anything else
   */
  public boolean isComplete() {
    return manifest != null;
  }

  /** One line, with what could be mistaken in a terminal escaped. */
  @Override
  public String toString() {
    return Printable.of(
        manifest == null
            ? directory + " " + problem
            : "%s of process %s, made %s, %s bytes%s"
                .formatted(
                    directory,
                    manifest.pid(),
                    manifest.created(),
                    manifest.bytes(),
                    manifest.label() == null ? "" : ", labelled " + manifest.label()));
  }
}
