package dev.gpuprocess.internal.store;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageCorruptException;
import dev.gpuprocess.image.ImageFile;
import dev.gpuprocess.image.Manifest;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Collectors;

/** The manifest that comes from another host with the files that it lists. */
public final class SentManifest {

  private SentManifest() {}

  /**
   * Reads one.
   *
   * @param place the image that it will be of, named in exceptions
   * @param text what {@link StagedImage#describe} wrote there
   * @throws ImageCorruptException when it is no manifest
   * @throws dev.gpuprocess.error.ImageFormatException when a newer version wrote it
   */
  public static Manifest read(Path place, byte[] text) {
    return ManifestFile.read(
        place.resolve(ManifestFile.NAME), text, ManifestFile.sum(text), null, null);
  }

  /**
   * The manifest of an image that is complete here.
   *
   * @param sent with what the other host has seen of its files
   * @return compares these, and lists all
   */
  public static Function<List<ImageFile>, Manifest> completed(Manifest sent) {
    return files -> {
      Map<String, ImageFile> here =
          files.stream().collect(Collectors.toMap(ImageFile::path, each -> each));
      for (ImageFile each : sent.files()) {
        if (!each.equals(here.get(each.path()))) {
          throw new ImageCorruptException(
              "%s of process %s did not come as it was sent: migrate again"
                  .formatted(each.path(), sent.pid()),
              Failure.of("receive", sent.pid()),
              null);
        }
      }
      return sent.with(files);
    };
  }
}
