package dev.gpuprocess.internal.store;

import dev.gpuprocess.image.MemoryFile;
import dev.gpuprocess.internal.os.FileHold;
import dev.gpuprocess.internal.os.PinnedDirectory;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/**
 * An image that was just verified and is pinned, so that a restore reads the files that were
 * verified: while this is open, replacing the directory of the image has no effect, and nobody who
 * asks ({@link ImageRemoval}) removes what is in it. For one thread.
 *
 * @param directory the image
 * @param hold tells others that it is in use; null where its file system knows no locks
 */
public record VerifiedImage(PinnedDirectory directory, @Nullable FileHold hold)
    implements AutoCloseable {

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
    if (hold != null) {
      hold.close();
    }
    directory.close();
  }
}
