package dev.gpuprocess.internal.image;

import dev.gpuprocess.internal.linux.Descriptors;
import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.linux.Ownership;
import dev.gpuprocess.internal.linux.PinnedDirectory;
import dev.gpuprocess.internal.linux.StagingName;
import dev.gpuprocess.internal.manifest.MemoryFile;
import dev.gpuprocess.report.ProcessIdentity;
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
 * The directory in which an image is written. The directory and its parent are pinned by
 * descriptors, so that users who can write to the parent cannot redirect the writes and removals of
 * this JVM.
 */
final class StagingDirectory implements AutoCloseable {

  private final PinnedDirectory parent;
  private final PinnedDirectory staging;
  private final String name;
  private final StagingLease lease;
  private @Nullable Path moved;

  private StagingDirectory(PinnedDirectory parent, PinnedDirectory staging, String name) {
    this.parent = parent;
    this.staging = staging;
    this.name = name;
    this.lease = StagingLease.of(staging);
  }

  /**
   * Creates a staging directory with an empty directory for CRIU's files. Closing it closes the
   * parent.
   */
  static StagingDirectory make(PinnedDirectory parent, ProcessIdentity process) throws IOException {
    String name = StagingName.of(process).text();
    Path path = parent.path().resolve(name);
    Files.createDirectory(
        path, PosixFilePermissions.asFileAttribute(DurableFiles.PRIVATE_DIRECTORY));
    PinnedDirectory staging = null;
    StagingDirectory made = null;
    try {
      staging = parent.child(name);
      requirePrivate(staging);
      if (!DurableFiles.list(staging.path()).isEmpty()) {
        throw replaced(staging.name());
      }
      made = new StagingDirectory(parent, staging, name);
      DurableFiles.createDirectory(made.images());
      return made;
    } catch (IOException e) {
      if (made != null) {
        made.lease.close(); // it changes the descriptor, which may be another thread's once closed
      }
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

  /** Refuses a directory that another user has put there. */
  private static void requirePrivate(PinnedDirectory staging) throws IOException {
    if (!Ownership.of(staging).isOurs()) {
      throw replaced(staging.name());
    }
    // The name could lead to another directory now.
    Files.setPosixFilePermissions(staging.path(), DurableFiles.PRIVATE_DIRECTORY);
  }

  /**
   * Takes over a staging directory whose maker has ended, under a name of this JVM. Closing it
   * closes the parent.
   *
   * @return empty when another process was faster
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
   * Leaves the directory as if this JVM had ended: the next copy of the same image continues it,
   * and any other image that is written beside it removes it.
   */
  void abandon() throws IOException {
    try {
      AbandonedImage.leave(parent.path(), name);
    } catch (IOException e) {
      giveUp();
      throw e;
    }
  }

  /** Returns the pinned directory. */
  PinnedDirectory held() {
    return staging;
  }

  /** Returns the directory of CRIU's image files. */
  Path images() {
    return staging.path().resolve(ImageDirectory.IMAGES);
  }

  /**
   * Syncs the directories, renames the staging directory to its final name, and syncs the name. The
   * files must be on the disk.
   */
  void publish(Path target) throws IOException {
    lease.close();
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

  /** Returns whether the directory has its final name. */
  boolean hasItsName() {
    return moved != null;
  }

  /**
   * Removes the directory with its content; its final name is removed first, atomically. If that
   * fails, the directory is removed later, unless it still has its final name.
   *
   * @throws FileSystemException when the directory was moved away from its final name; it stays,
   *     and so does a directory that has the name now
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
            staging.name().toString(), null, "was moved, and stays where it is");
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
    lease.close();
    staging.close();
    parent.close();
  }
}
