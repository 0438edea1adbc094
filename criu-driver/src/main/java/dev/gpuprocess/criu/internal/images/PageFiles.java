package dev.gpuprocess.criu.internal.images;

import dev.gpuprocess.internal.os.Descriptors;
import dev.gpuprocess.internal.os.DurableFiles;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** The memory pages of a tree without its other images, as a page server leaves them. */
public final class PageFiles {

  private static final String MAP = "pagemap-";
  private static final String PAGES = "pages-";
  private static final String SUFFIX = ".img";

  private PageFiles() {}

  /**
   * Checks that all pages listed in the page maps exist, and syncs them to disk.
   *
   * @param directory the directory with page maps and pages
   * @param pageSize in bytes
   * @throws BadImageException if some are missing
   * @throws IOException if a file cannot be read or synced
   */
  public static void requireDurable(Path directory, long pageSize) throws IOException {
    boolean any = false;
    for (Path file : DurableFiles.list(directory)) {
      String name = String.valueOf(file.getFileName());
      if (!isPages(name)) {
        continue;
      }
      if (name.startsWith(MAP)) {
        requireComplete(directory, name, pageSize);
        any = true;
      }
      Descriptors.sync(file);
    }
    if (!any) {
      throw new BadImageException(directory + " has no page map");
    }
    Descriptors.sync(directory);
  }

  private static boolean isPages(String name) {
    return name.endsWith(SUFFIX) && (name.startsWith(MAP) || name.startsWith(PAGES));
  }

  private static void requireComplete(Path directory, String file, long pageSize)
      throws IOException {
    String name = file.substring(MAP.length(), file.length() - SUFFIX.length());
    PageMap map =
        PageMap.read(directory, name, pageSize)
            .orElseThrow(() -> new BadImageException(file + " has vanished"));
    long needed = map.present();
    long there = Files.exists(map.pages()) ? Files.size(map.pages()) : 0;
    if (there < needed) {
      throw new BadImageException(
          "%s needs %s bytes of %s, which has %s"
              .formatted(file, needed, map.pages().getFileName(), there));
    }
  }
}
