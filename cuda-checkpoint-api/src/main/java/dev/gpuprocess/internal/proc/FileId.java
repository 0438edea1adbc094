package dev.gpuprocess.internal.proc;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * The identity of a file while it exists, whatever its names are.
 *
 * @param device its file system, in the form of {@code /proc/PID/maps}, such as {@code fe:00}
 * @param inode its number in that file system
 */
public record FileId(String device, long inode) {

  private static final Pattern TEXT = Pattern.compile("[0-9a-f]+:[0-9a-f]+/[0-9]{1,18}");

  /**
   * Reads the identity of the file that a path leads to.
   *
   * @throws IOException if it cannot be read
   */
  public static FileId of(Path file) throws IOException {
    return FileNode.read(file).id();
  }

  /** Returns the form of a journal entry. */
  public static String text(List<FileId> files) {
    return files.stream().map(FileId::toString).collect(Collectors.joining(" "));
  }

  /**
   * Parses the form of a journal entry.
   *
   * @throws IllegalArgumentException if it is not one
   */
  public static List<FileId> parse(String text) {
    return Arrays.stream(text.split(" ")).filter(each -> !each.isEmpty()).map(FileId::one).toList();
  }

  private static FileId one(String text) {
    if (!TEXT.matcher(text).matches()) {
      throw new IllegalArgumentException("not a file: " + text);
    }
    int slash = text.indexOf('/');
    return new FileId(text.substring(0, slash), Long.parseLong(text.substring(slash + 1)));
  }

  @Override
  public String toString() {
    return device + "/" + inode;
  }
}
