package dev.gpuprocess.internal.store;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageDirectoryException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.os.DurableFiles;
import dev.gpuprocess.internal.os.Ownership;
import dev.gpuprocess.internal.os.StagingName;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * A half image whose maker died.
 *
 * @param path its directory
 * @param maker the process that made it, dead
 * @param process the process that was being dumped, which may live on; empty when this machine was
 *     started anew since
 */
public record AbandonedImage(Path path, ProcessIdentity maker, Optional<ProcessIdentity> process) {

  /**
   * Finds the half images that makers left when they died. Those of makers that live are left out,
   * also those of other JVMs on this machine. A directory that several machines share must not be
   * asked: makers on another machine cannot be seen.
   *
   * @param parent where images are
   * @return what can be removed; empty when there is no such directory
   * @throws ImageDirectoryException when the directory cannot be read
   */
  public static List<AbandonedImage> in(Path parent) {
    if (!Files.isDirectory(parent)) {
      return List.of();
    }
    List<AbandonedImage> found = new ArrayList<>();
    try {
      for (Path entry : DurableFiles.list(parent)) {
        of(entry).ifPresent(found::add);
      }
    } catch (IOException e) {
      throw new ImageDirectoryException(
          parent + " cannot be searched for half images: " + e, Failure.of("recover", 0), e);
    }
    return found;
  }

  /**
   * Removes the half images that makers of this machine left when they died since it was started;
   * those of other machines that have the directory too are not touched.
   *
   * @param parent where images are
   * @throws ImageException when one cannot be removed, or the directory cannot be read
   */
  public static void removeIn(Path parent) {
    in(parent).stream()
        .filter(half -> half.process().isPresent())
        .forEach(AbandonedImage::remove);
  }

  /** Tells whether a directory is one. */
  private static Optional<AbandonedImage> of(Path directory) throws IOException {
    Optional<StagingName> name = StagingName.parse(String.valueOf(directory.getFileName()));
    if (name.isEmpty() || !Files.isDirectory(directory, LinkOption.NOFOLLOW_LINKS)) {
      return Optional.empty();
    }
    try {
      // Others can give their directories such names too.
      if (!name.get().isAbandoned() || !Ownership.of(directory).isOurs()) {
        return Optional.empty();
      }
      return Optional.of(
          new AbandonedImage(
              directory,
              name.get().maker(),
              name.get().isOfThisBoot() ? Optional.of(name.get().process()) : Optional.empty()));
    } catch (NoSuchFileException removedMeanwhile) {
      return Optional.empty();
    }
  }

  /**
   * Removes it. Does nothing when it is gone.
   *
   * @throws ImageException when it cannot be removed
   */
  public void remove() {
    try {
      DurableFiles.delete(path);
    } catch (IOException e) {
      throw new ImageException(
          "the half image " + path + " cannot be removed: " + e, Failure.of("recover", 0), e);
    }
  }
}
