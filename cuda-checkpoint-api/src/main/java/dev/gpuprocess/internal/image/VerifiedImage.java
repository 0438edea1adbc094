package dev.gpuprocess.internal.image;

import dev.gpuprocess.image.MemoryFile;
import dev.gpuprocess.internal.linux.FileHold;
import dev.gpuprocess.internal.linux.PinnedDirectory;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/**
 * An image that was just verified and is pinned, so that a restore reads the files that were
 * verified: while this is open, replacing the directory of the image has no effect, and nobody who
 * asks ({@link ImageRemoval}) removes what is in it. For one thread.
 *
 * @param directory the image
 * @param hold tells others that it is in use; null where its file system knows no locks
 * @param copies of memory files, in host memory
 */
public record VerifiedImage(PinnedDirectory directory, @Nullable FileHold hold, MemoryCopies copies)
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
   * A memory file of it, or the copy of it that was made when it was verified.
   *
   * @return its path, with what was said of {@link #images}
   */
  public Path file(MemoryFile memory) {
    return copies.path(memory).orElseGet(() -> directory.path().resolve(memory.file()));
  }

  /** How memory files were read, for an operator; empty where there is nothing to be said. */
  public String note() {
    return copies.note();
  }

  /** Closes the directory, and lets the copies go. */
  @Override
  public void close() {
    copies.close();
    if (hold != null) {
      hold.close();
    }
    directory.close();
  }
}
