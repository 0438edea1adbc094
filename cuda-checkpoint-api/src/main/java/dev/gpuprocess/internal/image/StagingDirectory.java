package dev.gpuprocess.internal.image;

import dev.gpuprocess.image.MemoryFile;
import dev.gpuprocess.internal.linux.Descriptors;
import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.linux.Ownership;
import dev.gpuprocess.internal.linux.PinnedDirectory;
import dev.gpuprocess.internal.linux.StagingName;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * The directory in which an image is written. It and its parent are pinned by descriptors, so that
 * users who can write to the parent cannot redirect what we write, change or remove here.
 */
final class StagingDirectory implements AutoCloseable {

  private final PinnedDirectory parent;
  private final PinnedDirectory staging;
  private final String name;
  private @Nullable Path moved;

  private StagingDirectory(PinnedDirectory parent, PinnedDirectory staging, String name) {
    this.parent = parent;
    this.staging = staging;
    this.name = name;
  }

  /**
   * Creates one that contains only the directory for the CRIU image files; closing it closes the
   * parent.
   */
  static StagingDirectory make(PinnedDirectory parent, ProcessIdentity process) throws IOException {
    String name = StagingName.of(process).text();
    Path path = parent.path().resolve(name);
    Files.createDirectory(
        path, PosixFilePermissions.asFileAttribute(DurableFiles.PRIVATE_DIRECTORY));
    PinnedDirectory staging = null;
    try {
      staging = parent.child(name);
      requirePrivate(staging);
      if (!DurableFiles.list(staging.path()).isEmpty()) {
        throw replaced(staging.name());
      }
      StagingDirectory made = new StagingDirectory(parent, staging, name);
      DurableFiles.createDirectory(made.images());
      return made;
    } catch (IOException e) {
      if (staging != null) {
        staging.close();
      }
      try {
        DurableFiles.delete(path);
      } catch (IOException left) {
        AbandonedImage.giveUp(parent.name().resolve(name));
        e.addSuppressed(left);
      }
      throw e;
    }
  }

  /** Refuses a directory that another user has put in the place of ours. */
  private static void requirePrivate(PinnedDirectory staging) throws IOException {
    if (!Ownership.of(staging).isOurs()) {
      throw replaced(staging.name());
    }
    // Not by its name, which could be another directory by now.
    Files.setPosixFilePermissions(staging.path(), DurableFiles.PRIVATE_DIRECTORY);
  }

  /**
   * Takes over one whose maker has ended, under a name of this JVM; closing it closes the parent.
   *
   * @return empty when another process takes it over or removes it
   */
  static Optional<StagingDirectory> adopt(PinnedDirectory parent, AbandonedImage left)
      throws IOException {
    String name = left.claim(parent.path());
    if (name == null) {
      return Optional.empty();
    }
    PinnedDirectory staging = parent.child(name);
    try {
      requirePrivate(staging);
      return Optional.of(new StagingDirectory(parent, staging, name));
    } catch (IOException e) {
      staging.close();
      throw e;
    }
  }

  /**
   * Leaves it to the next copy of the same image in this directory, which continues it, or to the
   * next image that is written there, which removes it. This JVM counts as ended for it.
   */
  void abandon() throws IOException {
    try {
      AbandonedImage.leave(parent.path(), name);
    } catch (IOException e) {
      giveUp();
      throw e;
    }
  }

  /** The directory, by its descriptor. */
  PinnedDirectory held() {
    return staging;
  }

  /** The directory of the CRIU image files. */
  Path images() {
    return staging.path().resolve(ImageDirectory.IMAGES);
  }

  /**
   * Syncs its directories, gives it its final name in one step, and syncs the name. The files in it
   * are on the disk already.
   */
  void publish(Path target) throws IOException {
    for (String name : List.of(MemoryFile.DIRECTORY, ImageDirectory.IMAGES)) {
      Path directory = staging.path().resolve(name);
      if (Files.exists(directory, LinkOption.NOFOLLOW_LINKS)) {
        Descriptors.sync(directory);
      }
    }
    Descriptors.sync(staging.path());
    Path there = parent.path().resolve(target.getFileName());
    // rename(2) replaces an empty directory and nothing else.
    Files.move(ownPath(), there, StandardCopyOption.ATOMIC_MOVE);
    if (!staging.isAt(there)) {
      throw replaced(staging.name());
    }
    moved = there;
    Descriptors.sync(parent.path());
  }

  /** Whether it was given its final name. */
  boolean hasItsName() {
    return moved != null;
  }

  /**
   * Removes it with its content; its final name goes first, atomically. If that fails it is removed
   * later, unless it still has its final name.
   *
   * @throws FileSystemException when it was moved away since it got its final name; it stays then,
   *     and so does what has its name now
   */
  void remove() throws IOException {
    try {
      removeNow();
    } catch (IOException e) {
      if (moved == null) {
        giveUp();
      }
      throw e;
    }
  }

  private void removeNow() throws IOException {
    if (moved != null) {
      if (!staging.isAt(moved)) {
        throw new FileSystemException(
            staging.name().toString(), null, "was moved since, and stays where it is");
      }
      Files.move(moved, ownPath(), StandardCopyOption.ATOMIC_MOVE);
      moved = null;
      Descriptors.sync(parent.path());
    }
    DurableFiles.deleteContent(staging.path());
    Files.deleteIfExists(ownPath());
  }

  private void giveUp() {
    AbandonedImage.giveUp(parent.name().resolve(name));
  }

  private Path ownPath() {
    return parent.path().resolve(name);
  }

  static FileSystemException replaced(Path name) {
    return new FileSystemException(
        name.toString(),
        null,
        "was replaced by another user who can write to its parent: remove the write permission of others there");
  }

  @Override
  public void close() {
    staging.close();
    parent.close();
  }
}
