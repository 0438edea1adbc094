package dev.gpuprocess.criu.internal.images;

import dev.gpuprocess.criu.proto.Images.file_entry;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Pattern;

/**
 * The hard links that CRIU creates for open files whose own name is gone ({@code link-remap}). The
 * images contain only their names.
 */
public final class LinkRemaps {

  private static final Pattern NAME = Pattern.compile("link_remap\\.\\d+");

  private LinkRemaps() {}

  /**
   * Reads their names from images.
   *
   * @param images the directory
   * @return absolute paths, as the tree sees them
   * @throws IOException if {@code files.img} cannot be read
   */
  public static List<Path> in(Path images) throws IOException {
    return ImageFileReader.all(
            images.resolve("files.img"), ImageFileReader.Kind.FILES, file_entry.parser())
        .stream()
        .filter(file_entry::hasReg)
        .map(entry -> Path.of("/").resolve(entry.getReg().getName()))
        .filter(path -> NAME.matcher(String.valueOf(path.getFileName())).matches())
        .distinct()
        .toList();
  }
}
