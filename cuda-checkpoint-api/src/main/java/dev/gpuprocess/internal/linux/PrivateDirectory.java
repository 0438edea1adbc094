package dev.gpuprocess.internal.linux;

import dev.gpuprocess.internal.text.NativePath;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A new directory that no other user can enter or replace, and from which code can be loaded.
 *
 * @param path its path
 */
record PrivateDirectory(Path path) {

  private static final Logger LOG = LoggerFactory.getLogger(PrivateDirectory.class);

  private static final FileAttribute<Set<PosixFilePermission>> OURS_ALONE =
      PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------"));

  /**
   * Creates a directory among the temporary files or, if code cannot be loaded from there, in the
   * home or working directory.
   */
  static Optional<PrivateDirectory> create() {
    return Stream.of("java.io.tmpdir", "user.home", "user.dir")
        .flatMap(property -> Stream.ofNullable(System.getProperty(property)))
        .flatMap(name -> in(name).stream())
        .findFirst();
  }

  /** Empty when it cannot be created there, or code cannot be loaded from there. */
  static Optional<PrivateDirectory> in(String parent) {
    try {
      Path place = Path.of(parent).toRealPath();
      // A recovery recognizes leftovers of killed JVMs by this name.
      PrivateDirectory made =
          new PrivateDirectory(
              Files.createDirectory(
                  place.resolve(DirectoryMaker.temporaryName("native")), OURS_ALONE));
      if (made.isUsable()) {
        return Optional.of(made);
      }
      made.delete();
    } catch (IOException | InvalidPathException e) {
      LOG.debug("native code is not loaded from {}", parent, e);
    }
    return Optional.empty();
  }

  private boolean isUsable() throws IOException {
    // It is named in a property, so its path must survive as text.
    return NativePath.survivesAsText(path)
        && Ownership.of(path).isSecret()
        && DirectoryTrust.isOurs(path)
        && isExecutable();
  }

  /** The kernel denies execution on a file system that is mounted noexec. */
  private boolean isExecutable() throws IOException {
    Path program = Files.createTempFile(path, "probe", "", OURS_ALONE);
    try {
      return Files.isExecutable(program);
    } finally {
      Files.delete(program);
    }
  }

  /** Removes it with its content; libraries loaded from there stay loaded. */
  void delete() {
    try {
      remove();
    } catch (IOException e) {
      Leftovers.add(path, this::remove);
      LOG.warn("{} could not be removed: {}", path, e.toString());
    }
  }

  private void remove() throws IOException {
    try {
      for (Path file : DurableFiles.list(path)) {
        Files.deleteIfExists(file);
      }
    } catch (NoSuchFileException gone) {
      LOG.debug("{} is gone", path);
    }
    Files.deleteIfExists(path);
  }
}
