package dev.gpuprocess.internal.image;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.image.ImageKey;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.linux.StagingName;
import dev.gpuprocess.internal.text.Printable;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Removes images that are superseded by a newer one beside them. */
public final class Retention {

  private static final Logger LOG = LoggerFactory.getLogger(Retention.class);

  private final ImageDirectory newest;
  private final @Nullable ImageKey key;

  /**
   * Prepares; changes nothing.
   *
   * @param newest the image that supersedes the others
   * @param key what the images are signed with; null for none
   */
  public Retention(ImageDirectory newest, @Nullable ImageKey key) {
    this.newest = newest;
    this.key = key;
  }

  /**
   * Removes, oldest first, the images beside the newest that are of the same process (by pid and
   * command line) and were made before it. The images that stay are verified first, every byte; an
   * image that fails neither counts nor is removed. Links are not followed, and anything that is
   * not a complete image of ours is left alone, as is one that is being read or restored, except
   * partial images whose makers died on this machine ({@link AbandonedImage#removeIn}); an image
   * that is being removed becomes partial first. An interrupt does not stop this; the thread stays
   * interrupted.
   *
   * @param count how many stay, including the newest; at least 1
   * @return what was removed, oldest first
   * @throws IllegalArgumentException when the count is less than 1
   * @throws ImageException when the newest fails verification, in which case nothing was removed,
   *     or when something cannot be removed
   */
  public List<Path> keep(int count) {
    if (count < 1) {
      throw new IllegalArgumentException(
          "the newest image always stays, so the count must be at least 1, not " + count);
    }
    newest.verify();
    AbandonedImage.removeIn(parent());
    int kept = 1;
    List<ImageDirectory> superseded = new ArrayList<>();
    for (ImageDirectory image : olderOnes()) {
      if (kept == count) {
        superseded.add(image);
      } else if (verifies(image)) {
        kept++;
      }
    }
    Collections.reverse(superseded);
    return superseded.stream().filter(this::remove).map(ImageDirectory::path).toList();
  }

  private static boolean verifies(ImageDirectory image) {
    try {
      image.verify();
      return true;
    } catch (ImageException e) {
      LOG.warn(
          "{} is left alone and not counted, as it cannot be verified: {}",
          Printable.of(image.path().toString()),
          e.getMessage());
      return false;
    }
  }

  /** Those of the same process, newest first. */
  private List<ImageDirectory> olderOnes() {
    List<ImageDirectory> older = new ArrayList<>();
    try {
      for (Path entry : DurableFiles.list(parent())) {
        if (Files.isRegularFile(entry.resolve(ManifestFile.NAME)) && !isHalf(entry)) {
          addIfOlder(entry, older);
        }
      }
    } catch (IOException e) {
      throw failed(parent(), e);
    }
    older.sort(
        Comparator.comparing((ImageDirectory image) -> image.manifest().created()).reversed());
    return older;
  }

  private static boolean isHalf(Path entry) {
    return StagingName.parse(String.valueOf(entry.getFileName())).isPresent();
  }

  private void addIfOlder(Path entry, List<ImageDirectory> older) {
    try {
      ImageDirectory image = ImageDirectory.open(entry, key);
      Manifest mine = newest.manifest();
      Manifest other = image.manifest();
      if (other.pid() == mine.pid()
          && other.commandLine().equals(mine.commandLine())
          && other.created().isBefore(mine.created())) {
        older.add(image);
      }
    } catch (ImageException e) {
      LOG.debug("{} is not an image of ours: {}", Printable.of(entry.toString()), e.getMessage());
    }
  }

  private boolean remove(ImageDirectory image) {
    try {
      Optional<String> inTheWay = ImageRemoval.of(image, key).run(held -> Optional.empty());
      if (inTheWay.isPresent()) {
        LOG.info("{} stays for now: it {}", image.path(), inTheWay.get());
        return false;
      }
    } catch (IOException e) {
      if (Files.notExists(image.path(), LinkOption.NOFOLLOW_LINKS)) {
        return false; // another controller was faster
      }
      throw failed(image.path(), e);
    }
    LOG.info("{} is removed: {} supersedes it", image.path(), newest.path());
    return true;
  }

  private Path parent() {
    Path parent = newest.path().toAbsolutePath().getParent();
    if (parent == null) {
      throw new IllegalArgumentException(newest.path() + " has no parent directory");
    }
    return parent;
  }

  private static ImageException failed(Path path, IOException e) {
    return new ImageException(
        ImageException.Reason.UNWRITABLE,
        "%s cannot be removed or searched (%s): newer images were not touched".formatted(path, e),
        Failure.of("keep", 0),
        e);
  }
}
