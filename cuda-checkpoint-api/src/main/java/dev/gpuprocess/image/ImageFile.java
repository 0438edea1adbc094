package dev.gpuprocess.image;

/**
 * A file of an image. Immutable.
 *
 * @param path relative to the image, such as {@code criu/pages-1.img}
 * @param bytes its size
 */
public record ImageFile(String path, long bytes) {

  /**
   * Whether it holds memory of a process apart from CRIU's files.
   *
   * @return true for a file below {@code gpu}
   */
  public boolean isMemory() {
    return path.startsWith("gpu/");
  }
}
