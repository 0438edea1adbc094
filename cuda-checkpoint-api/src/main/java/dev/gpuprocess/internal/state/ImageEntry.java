package dev.gpuprocess.internal.state;

import dev.gpuprocess.internal.linux.Leftovers;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Objects;

/**
 * A journal entry about an image that is being written or removed. Closing removes the entry, but
 * only after all leftovers of this JVM beside the image are removed: until then, a recovery after
 * the death of this JVM needs the entry.
 */
public final class ImageEntry implements AutoCloseable {

  private final Journal journal;
  private final Path image;
  private final Path file;

  ImageEntry(Journal journal, Path image, Path file) {
    this.journal = journal;
    this.image = image.toAbsolutePath();
    this.file = file;
  }

  @Override
  public void close() {
    Path place = Objects.requireNonNullElse(image.getParent(), image);
    Leftovers.removeAfter(place, file.toString(), this::remove);
  }

  private void remove() throws IOException {
    journal.removeNow(file);
  }
}
