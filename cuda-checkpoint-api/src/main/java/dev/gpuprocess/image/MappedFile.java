package dev.gpuprocess.image;

import java.time.Instant;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * A program or shared library that a process of an image runs code of. A restore maps it from the
 * same path, and CRIU refuses a file of another size or build id there. Immutable.
 *
 * @param path where it was, from the root directory
 * @param bytes its size
 * @param buildId the build id that its linker gave it, in lower case hexadecimal; null where it has
 *     none
 * @param modified when it was last changed, of a file without a build id; null otherwise
 */
public record MappedFile(
    String path, long bytes, @Nullable String buildId, @Nullable Instant modified) {

  private static final int LONGEST_PATH = 4096;
  private static final Pattern HEX = Pattern.compile("([0-9a-f]{2}){1,64}");

  /**
   * Checks every part.
   *
   * @throws IllegalArgumentException when a part is impossible
   */
  public MappedFile {
    if (!path.startsWith("/") || path.length() > LONGEST_PATH || path.indexOf('\0') >= 0) {
      throw new IllegalArgumentException("a mapped file has an impossible path");
    }
    if (bytes < 0 || (buildId == null) == (modified == null)) {
      throw new IllegalArgumentException(
          path + " has an impossible size, or not one of build id and time");
    }
    if (buildId != null && !HEX.matcher(buildId).matches()) {
      throw new IllegalArgumentException(path + " has an impossible build id");
    }
  }
}
