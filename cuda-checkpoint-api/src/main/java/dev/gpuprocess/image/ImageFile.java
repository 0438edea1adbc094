package dev.gpuprocess.image;

import dev.gpuprocess.internal.store.ImageDirectory;
import java.util.List;
import java.util.Objects;
import java.util.regex.Pattern;

/**
 * A file of an image.
 *
 * @param path relative to the image, such as {@code criu/pages-1.img}
 * @param bytes its size
 * @param checksum how it was summed
 * @param chunks the sum of each {@value #CHUNK_BYTES} bytes, in lower case hexadecimal; the last
 *     chunk may be shorter, an empty file has none. In chunks, because one file often holds nearly
 *     all of an image and every core is to have a part of it.
 */
public record ImageFile(String path, long bytes, Checksum checksum, List<String> chunks) {

  /** The size of a chunk. */
  public static final long CHUNK_BYTES = 64L << 20;

  private static final Pattern PATH =
      Pattern.compile(ImageDirectory.IMAGES + "/[A-Za-z0-9][A-Za-z0-9._-]{0,200}");
  private static final Pattern HEX = Pattern.compile("[0-9a-f]*");

  /**
   * Checks the form: a path that leads out of the image never gets further than this.
   *
   * @throws IllegalArgumentException when a part is not of its form
   */
  public ImageFile {
    Objects.requireNonNull(checksum, "checksum");
    chunks = List.copyOf(chunks);
    if (!PATH.matcher(Objects.requireNonNull(path, "path")).matches()) {
      throw new IllegalArgumentException("'" + path + "' is no file of an image");
    }
    if (bytes < 0 || chunks.size() != chunksOf(bytes)) {
      throw new IllegalArgumentException(path + " has an impossible size");
    }
    for (String sum : chunks) {
      if (sum.length() != checksum.digits() || !HEX.matcher(sum).matches()) {
        throw new IllegalArgumentException(path + " has an impossible checksum");
      }
    }
  }

  /** How many chunks a file of this size has. */
  static long chunksOf(long bytes) {
    return bytes / CHUNK_BYTES + (bytes % CHUNK_BYTES == 0 ? 0 : 1);
  }
}
