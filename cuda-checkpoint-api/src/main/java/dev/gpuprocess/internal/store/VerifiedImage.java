package dev.gpuprocess.internal.store;

import dev.gpuprocess.internal.os.PinnedDirectory;
import java.nio.file.Path;

/**
 * An image whose files were just compared with its manifest, held so that a restore reads these and
 * no others: while this is open, putting another directory in the place of the image changes
 * nothing. For one thread.
 */
public final class VerifiedImage implements AutoCloseable {

  private final PinnedDirectory directory;

  VerifiedImage(PinnedDirectory directory) {
    this.directory = directory;
  }

  /**
   * The CRIU image files. The path leads over a descriptor of this process ({@code /proc/self/fd}),
   * so another process has to be given a descriptor of it.
   *
   * @return their directory, until this is closed
   */
  public Path images() {
    return directory.path().resolve(ImageDirectory.IMAGES);
  }

  /** Lets go of the directory. */
  @Override
  public void close() {
    directory.close();
  }
}
