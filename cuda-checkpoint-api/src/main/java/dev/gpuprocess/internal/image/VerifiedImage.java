package dev.gpuprocess.internal.image;

import dev.gpuprocess.internal.linux.FileHold;
import dev.gpuprocess.internal.linux.PinnedDirectory;
import dev.gpuprocess.internal.manifest.MemoryFile;
import dev.gpuprocess.internal.proc.FileId;
import java.nio.file.Path;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A verified image whose directory is pinned, so that a restore reads the verified files: while
 * this is open, replacing the directory has no effect, and {@link ImageRemoval} does not remove the
 * image. For one thread.
 *
 * @param directory the image
 * @param hold marks the image as in use; null if its file system has no locks
 * @param copies the copies of memory files in host memory
 */
public record VerifiedImage(PinnedDirectory directory, @Nullable FileHold hold, MemoryCopies copies)
    implements AutoCloseable {

  /**
   * Returns the directory of CRIU's image files, valid until this is closed. The path is a
   * descriptor of this process ({@code /proc/self/fd}), so another process needs a descriptor of
   * the directory.
   */
  public Path images() {
    return directory.path().resolve(ImageDirectory.IMAGES);
  }

  /**
   * Returns a memory file, or its copy that was made by the verification.
   *
   * @return a path like that of {@link #images}
   */
  public Path file(MemoryFile memory) {
    return copies.path(memory).orElseGet(() -> directory.path().resolve(memory.file()));
  }

  /** Returns the files in host memory that were made for the restore. */
  public List<FileId> saveFiles() {
    return copies.files();
  }

  /** Returns the note of the step about memory files; may be empty. */
  public String note() {
    return copies.note();
  }

  /** Closes the directory and the copies. */
  @Override
  public void close() {
    copies.close();
    if (hold != null) {
      hold.close();
    }
    directory.close();
  }
}
