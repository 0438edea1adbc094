package dev.gpuprocess.internal.image;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.image.StoredImage;
import dev.gpuprocess.internal.linux.Descriptors;
import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.linux.Leftovers;
import dev.gpuprocess.internal.linux.PinnedDirectory;
import dev.gpuprocess.internal.linux.StagingName;
import dev.gpuprocess.internal.text.NativePath;
import dev.gpuprocess.internal.text.Printable;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Reads a directory of images. Links are not followed. Files that are not complete images of this
 * user are listed separately.
 *
 * @param path the directory
 * @param key the key of the images; null for none
 */
public record StoreDirectory(Path path, @Nullable ImageKey key) {

  private static final Comparator<ImageDirectory> NEWEST_FIRST =
      Comparator.comparing((ImageDirectory image) -> image.manifest().created())
          .thenComparing(ImageDirectory::path)
          .reversed();

  /**
   * The content of the directory.
   *
   * @param images newest first
   * @param others all other entries, by name
   * @param isBeingWritten whether a living process is writing an image there
   */
  public record Content(
      List<ImageDirectory> images, List<StoredImage> others, boolean isBeingWritten) {

    /** Returns all entries, the images first. */
    public List<StoredImage> all() {
      return Stream.concat(
              images.stream()
                  .map(each -> new StoredImage(each.path(), each.manifest().summary(), null)),
              others.stream())
          .toList();
    }

    boolean has(Path entry) {
      return all().stream().anyMatch(each -> each.directory().equals(entry));
    }
  }

  /**
   * Reads the directory.
   *
   * @return empty when it does not exist
   * @throws ImageException with reason DIRECTORY when it cannot be read; with reason UNREADABLE
   *     when an image cannot be read because too many files are open
   */
  public Content read() {
    try (PinnedDirectory held = PinnedDirectory.open(path)) {
      List<ImageDirectory> images = new ArrayList<>();
      List<StoredImage> others = new ArrayList<>();
      boolean isBeingWritten = false;
      for (Path entry : DurableFiles.list(held.path())) {
        // A name that the locale lacks characters for must not become a path again as text.
        Path file = Objects.requireNonNull(entry.getFileName());
        String name = NativePath.name(entry);
        Optional<StagingName> half = StagingName.parse(name);
        isBeingWritten |=
            half.isPresent() && !half.get().maker().hasEnded() && !Leftovers.contain(entry);
        try {
          images.add(image(held, file, name));
        } catch (NotAnImage e) {
          others.add(new StoredImage(path.resolve(file), null, e.why));
        }
      }
      images.sort(NEWEST_FIRST);
      return new Content(List.copyOf(images), List.copyOf(others), isBeingWritten);
    } catch (NoSuchFileException nothingYet) {
      return new Content(List.of(), List.of(), false);
    } catch (IOException e) {
      throw new ImageException(
          ImageException.Reason.DIRECTORY,
          "the images in %s cannot be listed: %s".formatted(path, ImagePlace.reason(e)),
          Failure.of("list", 0),
          e);
    }
  }

  /**
   * Refuses to make an image in an image: a removal of the outer one would remove both.
   *
   * @throws ImageException with reason DIRECTORY if this directory is an image
   */
  public void requireNoImage(String verb, int pid) {
    if (Files.exists(path.resolve(ManifestFile.NAME), LinkOption.NOFOLLOW_LINKS)) {
      throw new ImageException(
          ImageException.Reason.DIRECTORY,
          "%s is an image, not a directory of images: name the directory above it".formatted(path),
          Failure.of(verb, pid));
    }
  }

  private ImageDirectory image(PinnedDirectory held, Path file, String name)
      throws NotAnImage, IOException {
    Path entry = held.path().resolve(file);
    if (StagingName.parse(name).isPresent()) {
      throw new NotAnImage(
          "is a partial image: it is being written or removed, or its maker has ended");
    }
    if (Files.isSymbolicLink(entry)) {
      throw new NotAnImage("is a link, and links are not followed");
    }
    if (!Files.isDirectory(entry, LinkOption.NOFOLLOW_LINKS)) {
      throw new NotAnImage("is not a directory");
    }
    if (!Printable.of(name).equals(name)) {
      throw new NotAnImage("has a name that this library never gives to an image");
    }
    try (PinnedDirectory image = held.child(file)) {
      if (!ImageDirectory.isThere(image.path().resolve(ManifestFile.NAME))) {
        throw new NotAnImage(
            "has no " + ManifestFile.NAME + ": it is not an image, or not a complete one");
      }
      return ImageDirectory.open(image, key);
    } catch (NoSuchFileException gone) {
      throw new NotAnImage("was removed just now");
    } catch (ImageException e) {
      if (!VerificationCache.isFaultOfImage(e)) {
        throw e;
      }
      throw new NotAnImage("cannot be used: " + e.getMessage());
    } catch (IOException e) {
      if (Descriptors.areUsedUp(e)) {
        throw e;
      }
      throw new NotAnImage("cannot be opened: " + held.explain(e));
    }
  }

  /** Thrown for an entry that is not an image. */
  private static final class NotAnImage extends Exception {

    private static final long serialVersionUID = 1L;

    private final String why;

    NotAnImage(String why) {
      super(why, null, false, false);
      this.why = why;
    }
  }
}
