package dev.gpuprocess.internal.image;

import dev.gpuprocess.internal.linux.Descriptors;
import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.linux.FileHold;
import dev.gpuprocess.internal.linux.PinnedDirectory;
import dev.gpuprocess.internal.linux.StagingName;
import dev.gpuprocess.internal.manifest.ManifestData;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Objects;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * Removes an image that is not being read or restored. It becomes a partial image first, so that
 * the rest is found ({@link AbandonedImage}) if the removal fails or this JVM ends.
 */
final class ImageRemoval {

  private final ImageDirectory image;
  private final @Nullable ImageKey key;

  ImageRemoval(ImageDirectory image, @Nullable ImageKey key) {
    this.image = image;
    this.key = key;
  }

  /**
   * Removes the image.
   *
   * @return the reason why it stays, as the end of a sentence about it; empty when it is removed
   * @throws IOException when it cannot be removed, or was replaced by another image
   */
  Optional<String> run() throws IOException {
    Path path = image.path();
    Path name = Objects.requireNonNull(path.getFileName());
    try (PinnedDirectory parent = PinnedDirectory.open(Objects.requireNonNull(path.getParent()));
        PinnedDirectory held = parent.child(name)) {
      if (!ImageDirectory.open(held, key).manifest().equals(image.manifest())) {
        throw replaced();
      }
      Optional<Path> nested = nested(held);
      if (nested.isPresent()) {
        return Optional.of("contains another image, " + held.shown(nested.get()));
      }
      Optional<FileHold> alone = FileHold.alone(held.path().resolve(ManifestFile.NAME));
      if (alone.isEmpty()) {
        return Optional.of("is being read or restored");
      }
      try {
        // No process can begin to use the image now.
        Optional<String> mapped = MappingProcesses.of(held, image.manifest());
        if (mapped.isEmpty()) {
          remove(parent, held, name);
        }
        return mapped;
      } finally {
        alone.get().close();
      }
    }
  }

  /** Returns a directory in the image that has a manifest of its own. */
  private static Optional<Path> nested(PinnedDirectory held) throws IOException {
    return DurableFiles.list(held.path()).stream()
        .filter(each -> Files.exists(each.resolve(ManifestFile.NAME), LinkOption.NOFOLLOW_LINKS))
        .findFirst();
  }

  void remove(PinnedDirectory parent, PinnedDirectory held, Path name) throws IOException {
    ManifestData manifest = image.manifest();
    ProcessIdentity process = new ProcessIdentity(manifest.pid(), manifest.startTicks());
    Path half = parent.path().resolve(StagingName.of(process).text());
    Path there = parent.path().resolve(name);
    Files.move(there, half, StandardCopyOption.ATOMIC_MOVE);
    if (!held.isAt(half)) {
      FileSystemException replaced = replaced();
      try {
        Files.move(half, there, StandardCopyOption.ATOMIC_MOVE);
      } catch (IOException e) {
        replaced.addSuppressed(e);
      }
      throw replaced;
    }
    try {
      Descriptors.sync(parent.path());
      DurableFiles.deleteContent(held.path());
      Files.deleteIfExists(half);
    } catch (IOException e) {
      AbandonedImage.giveUp(parent.name().resolve(String.valueOf(half.getFileName())));
      throw e;
    }
  }

  private FileSystemException replaced() {
    return new FileSystemException(image.path().toString(), null, "was replaced just now");
  }
}
