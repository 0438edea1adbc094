package dev.gpuprocess.criu.internal.process;

import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.internal.proc.ProcFs;
import java.nio.file.FileSystemException;
import java.nio.file.Path;

/**
 * The image and work directory of a request, kept open. CRIU opens them through {@code
 * /proc/PID/fd} of this JVM, so CRIU need not inherit them, and their paths may have any length and
 * any character.
 */
public final class ImageDirectories implements AutoCloseable {

  private static final int DIRECTORY = Libc.O_RDONLY | Libc.O_DIRECTORY;

  private final int images;
  private final int work;

  private ImageDirectories(int images, int work) {
    this.images = images;
    this.work = work;
  }

  public static ImageDirectories open(Path images, Path work) throws FileSystemException {
    int first = Libc.open(images, DIRECTORY);
    try {
      return new ImageDirectories(first, Libc.open(work, DIRECTORY));
    } catch (FileSystemException e) {
      Libc.close(first);
      throw e;
    }
  }

  public int images() {
    return images;
  }

  public int work() {
    return work;
  }

  /** Returns a path to a file in the work directory that CRIU can open too. */
  public String seenByCriu(String name) {
    return ProcFs.file(ProcessHandle.current().pid(), "fd", Integer.toString(work), name)
        .toString();
  }

  @Override
  public void close() {
    Libc.close(images);
    Libc.close(work);
  }
}
