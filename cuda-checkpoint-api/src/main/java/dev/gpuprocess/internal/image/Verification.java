package dev.gpuprocess.internal.image;

import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.linux.IoExecutor;
import dev.gpuprocess.internal.linux.Ownership;
import dev.gpuprocess.internal.linux.PinnedDirectory;
import dev.gpuprocess.internal.manifest.ChecksummedFile;
import dev.gpuprocess.internal.manifest.ManifestData;
import dev.gpuprocess.internal.manifest.MemoryFile;
import dev.gpuprocess.internal.time.WorkLimit;
import java.io.IOException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;

/** Compares the files of an image with its manifest, beginning with the quickest checks. */
final class Verification {

  private final PinnedDirectory image;
  private final ManifestData manifest;
  private final Path images;
  private final WorkLimit reading;
  private final boolean ofAnyOwner;

  Verification(PinnedDirectory image, ManifestData manifest, WorkLimit reading) {
    this(image, manifest, reading, false);
  }

  /**
   * Prepares a verification.
   *
   * @param ofAnyOwner whether the files may belong to other users, because only their content is
   *     used
   */
  Verification(
      PinnedDirectory image, ManifestData manifest, WorkLimit reading, boolean ofAnyOwner) {
    this.image = image;
    this.manifest = manifest;
    this.reading = reading;
    this.ofAnyOwner = ofAnyOwner;
    this.images = image.path().resolve(ImageDirectory.IMAGES);
  }

  /**
   * Compares the content, after {@link #requireForm}.
   *
   * @param copies the copies of memory files that are made at the same time
   */
  void requireContent(MemoryCopies copies) throws IOException {
    PageMaps.requireComplete(image, images, "open", 0);
    requireSameContent(copies);
  }

  /** Compares owners, names and sizes. */
  void requireForm() throws IOException {
    requireOurs(Ownership.of(image), image.name());
    if (!Files.isDirectory(images, LinkOption.NOFOLLOW_LINKS)) {
      throw ImageDirectory.corrupt(
          image.shown(images) + " is missing: use another copy of the image", null);
    }
    requireOurs(Ownership.of(images), image.shown(images));
    requireSameNames(images, ChecksummedFile.DIRECTORY);
    if (!manifest.memoryFiles().isEmpty()) {
      Path memory = image.path().resolve(MemoryFile.DIRECTORY);
      if (!Files.isDirectory(memory, LinkOption.NOFOLLOW_LINKS)) {
        throw ImageDirectory.corrupt(
            image.shown(memory) + " is missing: use another copy of the image", null);
      }
      requireOurs(Ownership.of(memory), image.shown(memory));
      requireSameNames(memory, MemoryFile.DIRECTORY);
    }
    for (ChecksummedFile file : manifest.files()) {
      reading.check();
      requireForm(file);
    }
  }

  private void requireOurs(Ownership owner, Path shown) throws IOException {
    if (!ofAnyOwner) {
      owner.requireOurs(shown);
    }
  }

  private void requireSameNames(Path directory, String name) throws IOException {
    Set<String> listed =
        manifest.files().stream()
            .map(ChecksummedFile::path)
            .filter(path -> path.startsWith(name + "/"))
            .collect(Collectors.toCollection(TreeSet::new));
    // The first surplus file ends the loop, so a huge directory costs no more than its manifest.
    try (DirectoryStream<Path> files = Files.newDirectoryStream(directory)) {
      for (Path file : files) {
        if (!listed.remove(image.path().relativize(file).toString())) {
          throw ImageDirectory.corrupt(
              image.shown(file) + " is not in the manifest: the image was altered", null);
        }
      }
    } catch (DirectoryIteratorException e) {
      throw e.getCause();
    }
    if (!listed.isEmpty()) {
      throw ImageDirectory.corrupt(
          image.name() + " lacks " + listed + ": use another copy of the image", null);
    }
  }

  private void requireForm(ChecksummedFile file) throws IOException {
    Path real = image.path().resolve(file.path());
    Path shown = image.shown(real);
    if (!Files.isRegularFile(real, LinkOption.NOFOLLOW_LINKS)) {
      throw ImageDirectory.corrupt(shown + " is not a regular file: the image was altered", null);
    }
    requireOurs(Ownership.of(real), shown);
    long bytes = Files.size(real);
    if (bytes != file.bytes()) {
      throw ImageDirectory.corrupt(
          "%s has %s bytes instead of %s: it was truncated or altered; use another copy of the image"
              .formatted(shown, bytes, file.bytes()),
          null);
    }
  }

  private void requireSameContent(MemoryCopies copies) throws IOException {
    List<ChecksummedFile> read =
        manifest.files().stream().filter(file -> !copies.has(file)).toList();
    try (IoExecutor cores = IoExecutor.cores()) {
      List<FileChecksums> started = new ArrayList<>();
      for (ChecksummedFile file : read) {
        started.add(FileChecksums.start(cores, image, file.path(), file.checksum(), reading));
      }
      for (int i = 0; i < started.size(); i++) {
        requireSame(read.get(i), started.get(i).await());
      }
    }
    for (ChecksummedFile file : manifest.files()) {
      if (copies.has(file)) {
        requireSame(file, copies.copy(image, file, reading));
      }
    }
  }

  private void requireSame(ChecksummedFile expected, ChecksummedFile found) {
    if (!expected.equals(found)) {
      throw altered(image, expected);
    }
  }

  static ImageException altered(PinnedDirectory image, ChecksummedFile file) {
    return ImageDirectory.corrupt(
        "%s has different content than when it was written: it was altered; use another copy of the image"
            .formatted(image.name().resolve(file.path())),
        null);
  }
}
