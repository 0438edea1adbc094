package dev.gpuprocess.internal.image;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.linux.DirectoryMaker;
import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.linux.Leftovers;
import dev.gpuprocess.internal.linux.Ownership;
import dev.gpuprocess.internal.linux.PinnedDirectory;
import dev.gpuprocess.internal.linux.StagingName;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A partial image whose maker has ended. Immutable.
 *
 * @param path its directory
 * @param maker the process that wrote it
 * @param process the process that was being dumped, which may be alive; empty after a reboot
 */
public record AbandonedImage(Path path, ProcessIdentity maker, Optional<ProcessIdentity> process) {

  private static final Logger LOG = LoggerFactory.getLogger(AbandonedImage.class);

  /**
   * Finds the partial images whose makers have ended. Makers may be other JVMs on this machine. Do
   * not use this for a directory that several machines share, because makers on other machines are
   * invisible.
   *
   * @param parent the directory that contains the images
   * @return the images that can be removed; empty when the directory does not exist
   * @throws ImageException with reason DIRECTORY when the directory cannot be read
   */
  public static List<AbandonedImage> in(Path parent) {
    List<AbandonedImage> found = new ArrayList<>();
    try {
      for (Path entry : entries(parent)) {
        of(entry, (path, name) -> name.maker().hasEnded()).ifPresent(found::add);
      }
    } catch (IOException e) {
      throw notSearched(parent, e);
    }
    return found;
  }

  /** Decides about a partial image of this user. */
  @FunctionalInterface
  private interface Test {
    boolean isAbandoned(Path directory, StagingName name) throws IOException;
  }

  private static List<Path> entries(Path parent) {
    try {
      return Files.isDirectory(parent) ? DurableFiles.list(parent) : List.of();
    } catch (IOException e) {
      throw notSearched(parent, e);
    }
  }

  private static ImageException notSearched(Path parent, IOException e) {
    return new ImageException(
        ImageException.Reason.DIRECTORY,
        parent + " cannot be searched for partial images: " + e,
        Failure.of("recover", 0),
        e);
  }

  /**
   * Removes the partial images whose makers have ended on this machine since its boot, and the
   * partial images that this JVM could not remove before. Partial images of makers that cannot be
   * seen from here, on other machines and in other containers, are removed when their {@linkplain
   * StagingLease leases} have ended. A failure is logged.
   *
   * @param parent the directory that contains the images
   */
  public static void removeIn(Path parent) {
    try {
      removeIn(parent, StagingLease.TERM);
    } catch (ImageException e) {
      // The next dump there tries again.
      LOG.warn("partial images in {} stay: {}", parent, e.getMessage());
    }
  }

  static void removeIn(Path parent, Duration term) {
    Leftovers.removeIn(parent);
    Test test =
        (path, name) ->
            name.maker().isVisible()
                ? name.maker().hasEnded()
                : StagingLease.hasEnded(parent, path, term);
    for (Path entry : entries(parent)) {
      try {
        of(entry, test).ifPresent(AbandonedImage::remove);
      } catch (IOException | ImageException e) {
        // The others may free the space that this one needs.
        LOG.warn("the partial image {} stays: {}", entry, e.toString());
      }
    }
  }

  /** Schedules the removal of a partial image of this JVM that could not be removed. */
  static void giveUp(Path path) {
    Leftovers.add(
        path,
        () -> {
          if (Files.exists(path, LinkOption.NOFOLLOW_LINKS) && !isOurs(path)) {
            throw StagingDirectory.replaced(path);
          }
          remove(path);
        });
  }

  /** Recognizes a partial image by its name and owner. */
  private static Optional<AbandonedImage> of(Path directory, Test test) throws IOException {
    Optional<StagingName> name = StagingName.parse(String.valueOf(directory.getFileName()));
    if (name.isEmpty() || !isOurs(directory) || !isAbandoned(directory, name.get(), test)) {
      return Optional.empty();
    }
    return Optional.of(
        new AbandonedImage(
            directory,
            name.get().maker().process(),
            name.get().maker().isOfThisBoot()
                ? Optional.of(name.get().process())
                : Optional.empty()));
  }

  private static boolean isAbandoned(Path directory, StagingName name, Test test)
      throws IOException {
    try {
      return test.isAbandoned(directory, name);
    } catch (NoSuchFileException removedMeanwhile) {
      return false;
    }
  }

  /** Checks the owner, because other users can give their directories such names. */
  private static boolean isOurs(Path directory) throws IOException {
    Optional<Ownership> owner = Ownership.ofDirectory(directory);
    return owner.isPresent() && owner.get().isOursToRemove();
  }

  /**
   * Renames the image to a name of this JVM. If several processes try that, one succeeds.
   *
   * @param parent the directory that contains it, by a path that other users cannot redirect
   * @return the new name; null when another process was faster
   */
  @Nullable String claim(Path parent) throws IOException {
    return claim(parent, path);
  }

  private static @Nullable String claim(Path parent, Path path) throws IOException {
    Optional<StagingName> left = StagingName.parse(String.valueOf(path.getFileName()));
    String name = StagingName.of(left.orElseThrow().process()).text();
    try {
      Files.move(
          parent.resolve(path.getFileName()), parent.resolve(name), StandardCopyOption.ATOMIC_MOVE);
      return name;
    } catch (NoSuchFileException gone) {
      return null;
    }
  }

  /**
   * Renames a partial image of this JVM as if its maker had ended.
   *
   * @param parent the directory that contains it, by a path that other users cannot redirect
   * @param name its name
   */
  static void leave(Path parent, String name) throws IOException {
    ProcessIdentity process = StagingName.parse(name).orElseThrow().process();
    StagingName left = new StagingName(DirectoryMaker.current().ended(), process);
    Files.move(parent.resolve(name), parent.resolve(left.text()), StandardCopyOption.ATOMIC_MOVE);
  }

  /**
   * Removes the image, unless it is gone or another process continues it.
   *
   * @throws ImageException when it cannot be removed
   */
  public void remove() {
    try {
      remove(path);
    } catch (IOException e) {
      throw new ImageException(
          ImageException.Reason.UNWRITABLE,
          "the partial image " + path + " cannot be removed: " + e,
          Failure.of("recover", 0),
          e);
    }
  }

  private static void remove(Path path) throws IOException {
    try (PinnedDirectory parent = PinnedDirectory.open(Objects.requireNonNull(path.getParent()))) {
      String name = claim(parent.path(), path);
      if (name != null) {
        delete(parent.path(), name, path);
      }
    } catch (NoSuchFileException gone) {
      LOG.debug("{} is gone", path);
    }
  }

  private static void delete(Path parent, String name, Path path) throws IOException {
    try {
      DurableFiles.delete(parent.resolve(name));
    } catch (IOException e) {
      try {
        // The journal entry of the maker is kept as long as the image has this name.
        Files.move(
            parent.resolve(name),
            parent.resolve(path.getFileName()),
            StandardCopyOption.ATOMIC_MOVE);
      } catch (IOException alsoFailed) {
        giveUp(path.resolveSibling(name));
        e.addSuppressed(alsoFailed);
      }
      throw e;
    }
  }
}
