package dev.gpuprocess.internal.manifest;

import dev.gpuprocess.internal.linux.FileRange;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * A file of an image that holds memory of the process apart from CRIU's files. CRIU's files say
 * only that it was mapped, and where; a restore maps it from wherever the image is then. Immutable.
 *
 * @param file its path in the image, such as {@code gpu/memory-1.bin}
 * @param mappedAs the path under which CRIU saw it when the image was made, where it need not be
 *     any more
 * @param ranges the addresses of the memory, such as {@code 7f0000000000-7f0080000000}, in the
 *     order in which the file has them
 * @param zeros the addresses in them that the process does not map from the file, because they are
 *     zero, in ascending order; null for none
 */
public record MemoryFile(
    String file, String mappedAs, List<String> ranges, @Nullable List<String> zeros) {

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
    zeros = zeros == null ? null : List.copyOf(zeros);
    if (zeros != null && !areParts(zeros, ranges)) {
      throw new IllegalArgumentException(file + " has impossible addresses of zeros");
    }
  }

  /** Returns whether zeros are at least one part of one range, each after the other. */
  private static boolean areParts(List<String> zeros, List<String> ranges) {
    long end = 0;
    for (String each : zeros) {
      if (!RANGE.matcher(each).matches()
          || start(each) < end
          || end(each) <= start(each)
          || ranges.stream()
              .noneMatch(range -> start(range) <= start(each) && end(each) <= end(range))) {
        return false;
      }
      end = end(each);
    }
    return !zeros.isEmpty();
  }

  /**
   * How much memory it is, which the file is as long as.
   *
   * @return bytes, negative when the addresses are impossible
   */
  public long bytes() {
    return ranges.stream().mapToLong(MemoryFile::bytes).sum();
  }

  /** Returns the parts of the file that the process does not map, because they are zero. */
  public List<FileRange> unmapped() {
    List<FileRange> parts = new ArrayList<>();
    for (String zero : zeros == null ? List.<String>of() : zeros) {
      long at = 0;
      for (String range : ranges) {
        if (start(range) <= start(zero) && end(zero) <= end(range)) {
          long from = at + start(zero) - start(range);
          parts.add(new FileRange(from, from + bytes(zero)));
          break;
        }
        at += bytes(range);
      }
    }
    return parts;
  }

  private static long bytes(String range) {
    return end(range) - start(range);
  }

  private static long start(String range) {
    return Long.parseLong(range.substring(0, range.indexOf('-')), HEXADECIMAL);
  }

  private static long end(String range) {
    return Long.parseLong(range.substring(range.indexOf('-') + 1), HEXADECIMAL);
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
