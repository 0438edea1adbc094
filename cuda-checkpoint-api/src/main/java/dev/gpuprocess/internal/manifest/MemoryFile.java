package dev.gpuprocess.internal.manifest;

import java.util.List;
import java.util.Objects;
import java.util.regex.Pattern;

/**
 * A file of an image that holds memory of the process apart from CRIU's files. CRIU's files say
 * only that it was mapped, and where; a restore maps it from wherever the image is then. Immutable.
 *
 * @param file its path in the image, such as {@code gpu/memory-1.bin}
 * @param mappedAs the path under which CRIU saw it when the image was made, where it need not be
 *     any more
 * @param ranges the addresses of the memory, such as {@code 7f0000000000-7f0080000000}, in the
 *     order in which the file has them
 */
public record MemoryFile(String file, String mappedAs, List<String> ranges) {

  /** The directory of such files in an image. */
  public static final String DIRECTORY = "gpu";

  private static final Pattern FILE = Pattern.compile(DIRECTORY + "/memory-[0-9]{1,9}\\.bin");
  private static final Pattern RANGE = Pattern.compile("[0-9a-f]{1,15}-[0-9a-f]{1,15}");
  private static final Pattern NOT_FROM_THE_KERNEL = Pattern.compile("/(\\.{0,2})/");
  private static final int HEXADECIMAL = 16;
  private static final int LONGEST_PATH = 4096;

  /**
   * Checks every part.
   *
   * @throws IllegalArgumentException when a part is malformed
   */
  public MemoryFile {
    ranges = List.copyOf(ranges);
    if (!FILE.matcher(Objects.requireNonNull(file, "file")).matches()) {
      throw new IllegalArgumentException("'" + file + "' is not a memory file of an image");
    }
    if (!isPath(Objects.requireNonNull(mappedAs, "mappedAs"), file)) {
      throw new IllegalArgumentException(file + " cannot have been mapped under such a path");
    }
    if (ranges.isEmpty() || !ranges.stream().allMatch(each -> RANGE.matcher(each).matches())) {
      throw new IllegalArgumentException(file + " has impossible addresses");
    }
  }

  /**
   * How much memory it is, which the file is as long as.
   *
   * @return bytes, negative when the addresses are impossible
   */
  public long bytes() {
    return ranges.stream().mapToLong(MemoryFile::bytes).sum();
  }

  private static long bytes(String range) {
    int dash = range.indexOf('-');
    return Long.parseLong(range.substring(dash + 1), HEXADECIMAL)
        - Long.parseLong(range.substring(0, dash), HEXADECIMAL);
  }

  /**
   * Whether CRIU can use a path: an absolute one of a file of that name, as the kernel writes it,
   * of characters that can be written in a manifest and over CRIU's protocol.
   *
   * @param path the path
   * @param file the file's path in the image
   * @return whether it can
   */
  public static boolean isPath(String path, String file) {
    return path.length() <= LONGEST_PATH
        && path.startsWith("/")
        && path.endsWith("/" + file)
        && !NOT_FROM_THE_KERNEL.matcher(path).find()
        && path.chars().noneMatch(each -> each < ' ' || each == 0x7f || each == 0xfffd);
  }
}
