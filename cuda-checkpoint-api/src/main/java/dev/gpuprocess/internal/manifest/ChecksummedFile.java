package dev.gpuprocess.internal.manifest;

import java.util.List;
import java.util.Objects;
import java.util.regex.Pattern;

/**
 * A file of an image, as the manifest lists it. Immutable.
 *
 * @param path relative to the image, such as {@code criu/pages-1.img}
 * @param bytes its size
 * @param checksum which checksum it has
 * @param chunks the checksum of each {@value #CHUNK_BYTES} bytes, in lower case hexadecimal; the
 *     last chunk may be shorter, an empty file has no chunks. In chunks, because one file often
 *     holds nearly all of an image and its checksum is computed on all cores.
 */
public record ChecksummedFile(String path, long bytes, Checksum checksum, List<String> chunks) {

  /** The size of a chunk, in bytes. */
  public static final long CHUNK_BYTES = 64L << 20;

  /** The directory of CRIU's files in an image. */
  public static final String DIRECTORY = "criu";

  private static final Pattern PATH =
      Pattern.compile(
          "(%s|%s)/[A-Za-z0-9][A-Za-z0-9._-]{0,200}".formatted(DIRECTORY, MemoryFile.DIRECTORY));
  private static final Pattern HEX = Pattern.compile("[0-9a-f]*");

  /**
   * Checks every part; a path that leads out of the image is refused here.
   *
   * @throws IllegalArgumentException when a part is malformed
   */
  public ChecksummedFile {
    Objects.requireNonNull(checksum, "checksum");
    chunks = List.copyOf(chunks);
    if (!PATH.matcher(Objects.requireNonNull(path, "path")).matches()) {
      throw new IllegalArgumentException("'" + path + "' is not a file of an image");
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
  public static long chunksOf(long bytes) {
    return bytes / CHUNK_BYTES + (bytes % CHUNK_BYTES == 0 ? 0 : 1);
  }
}
