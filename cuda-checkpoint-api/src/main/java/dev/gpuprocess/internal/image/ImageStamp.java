package dev.gpuprocess.internal.image;

import dev.gpuprocess.image.ImageFile;
import dev.gpuprocess.image.MemoryFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * By what one sees, without reading the files of an image, that somebody wrote to one of them,
 * replaced, added or removed one.
 *
 * @param attributes those of the files and directories, in order
 */
record ImageStamp(List<Map<String, Object>> attributes) {

  static ImageStamp of(ImageDirectory image) throws IOException {
    List<String> names = new ArrayList<>(List.of("", ManifestFile.NAME, ManifestFile.SUM_NAME));
    names.add(ImageFile.DIRECTORY);
    if (!image.manifest().memoryFiles().isEmpty()) {
      names.add(MemoryFile.DIRECTORY);
    }
    image.manifest().files().forEach(file -> names.add(file.path()));
    List<Map<String, Object>> attributes = new ArrayList<>();
    for (String name : names) {
      Path file = image.path().resolve(name);
      attributes.add(
          Files.readAttributes(file, "unix:ino,uid,mode,size,ctime", LinkOption.NOFOLLOW_LINKS));
    }
    return new ImageStamp(List.copyOf(attributes));
  }
}
