package dev.gpuprocess.internal.store;

import dev.gpuprocess.image.MemoryFile;
import dev.gpuprocess.internal.os.PinnedDirectory;
import java.nio.file.Path;

/**
 * An image that was just verified and is pinned, so that a restore reads the files that were
 * verified: while this is open, replacing the directory of the image has no effect. For one thread.
 *
 * @param directory the image
 */
public record VerifiedImage(PinnedDirectory directory) implements AutoCloseable {

  /**
   * The directory of the CRIU image files. The path goes through a descriptor of this process
   * ({@code /proc/self/fd}), so another process must be given a descriptor of it.
   *
   * @return valid until this is closed
   */
  public Path images() {
    return directory.path().resolve(ImageDirectory.IMAGES);
  }

  /**
   * A memory file of it.
   *
   * @return its path, with what was said of {@link #images}
   */
  public Path file(MemoryFile memory) {
    return directory.path().resolve(memory.file());
  }

  /** Closes the directory. */
  @Override
  public void close() {
    directory.close();
  }
}
