package dev.gpuprocess.internal.linux;

import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;

/** Creates, reads and removes files that are private and on disk, not only in the page cache. */
public final class DurableFiles {

  public static final Set<PosixFilePermission> PRIVATE_FILE =
      PosixFilePermissions.fromString("rw-------");
  public static final Set<PosixFilePermission> PRIVATE_DIRECTORY =
      PosixFilePermissions.fromString("rwx------");

  private DurableFiles() {}

  /** Creates a directory of mode 0700, whatever the umask. */
  public static void createDirectory(Path directory) throws IOException {
    Files.createDirectory(directory, PosixFilePermissions.asFileAttribute(PRIVATE_DIRECTORY));
    Files.setPosixFilePermissions(directory, PRIVATE_DIRECTORY);
  }

  /** Writes a new file of mode 0600, whatever the umask, and syncs it. */
  public static void write(Path file, byte[] content) throws IOException {
    Files.createFile(file, PosixFilePermissions.asFileAttribute(PRIVATE_FILE));
    Files.setPosixFilePermissions(file, PRIVATE_FILE);
    // Not a channel: those need direct memory, and an interrupt closes them.
    try (FileOutputStream out = new FileOutputStream(file.toFile())) {
      out.write(content);
      out.getFD().sync();
    }
  }

  /**
   * Reads a small file whose path survives as text.
   *
   * @throws FileSystemException when it is longer than {@code most} bytes
   */
  public static byte[] read(Path file, int most) throws IOException {
    // Not a channel, as above.
    try (FileInputStream in = new FileInputStream(file.toFile())) {
      byte[] content = in.readNBytes(most + 1);
      if (content.length > most) {
        throw new FileSystemException(file.toString(), null, "has more than " + most + " bytes");
      }
      return content;
    }
  }

  /** Lists the entries of a directory, ordered by name. */
  public static List<Path> list(Path directory) throws IOException {
    List<Path> entries = new ArrayList<>();
    try (DirectoryStream<Path> stream = Files.newDirectoryStream(directory)) {
      stream.forEach(entries::add);
    } catch (DirectoryIteratorException e) {
      throw e.getCause();
    }
    entries.sort(null);
    return entries;
  }

  /**
   * Removes a directory of this user with all its content; links are removed, not followed. Does
   * nothing when it does not exist.
   */
  public static void delete(Path directory) throws IOException {
    try (PinnedDirectory held = PinnedDirectory.openItself(directory)) {
      if (!Ownership.of(held).isOurs()) {
        throw new IOException(directory + " belongs to another user, so it is not removed");
      }
      deleteContent(held.path());
    } catch (NoSuchFileException gone) {
      return;
    }
    Files.deleteIfExists(directory);
  }

  /** Removes the content of a directory that no other user can write to. */
  public static void deleteContent(Path directory) throws IOException {
    for (Path entry : list(directory)) {
      if (Files.isDirectory(entry, LinkOption.NOFOLLOW_LINKS)) {
        deleteContent(entry);
      }
      Files.deleteIfExists(entry);
    }
  }
}
