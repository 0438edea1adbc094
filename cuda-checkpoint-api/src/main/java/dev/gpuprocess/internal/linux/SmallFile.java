package dev.gpuprocess.internal.linux;

import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.PosixFilePermissions;

/** Reads and writes small private text files that need not survive a crash of the machine. */
public final class SmallFile {

  /** The maximum size that {@link #read} reads. */
  public static final int MAX_BYTES = 1 << 16;

  private SmallFile() {}

  /**
   * Reads a file. Opens nothing but a regular file: opening a pipe would block.
   *
   * @throws java.nio.file.NoSuchFileException when it does not exist
   * @throws FileSystemException when it is not a small regular file
   */
  public static String read(Path file) throws IOException {
    if (!is(file)) {
      throw new FileSystemException(file.toString(), null, "is not a small regular file");
    }
    return Files.readString(file);
  }

  /**
   * Returns whether {@link #read} would read a file.
   *
   * @throws java.nio.file.NoSuchFileException when it does not exist
   */
  public static boolean is(Path file) throws IOException {
    BasicFileAttributes found =
        Files.readAttributes(file, BasicFileAttributes.class, LinkOption.NOFOLLOW_LINKS);
    return found.isRegularFile() && found.size() <= MAX_BYTES;
  }

  /** Writes a file of mode 0600, replacing an existing one. */
  public static void replace(Path file, String text) throws IOException {
    Files.deleteIfExists(file);
    Files.createFile(
        file, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
    // A channel would be closed by an interrupt.
    Files.writeString(file, text, StandardOpenOption.WRITE, LinkOption.NOFOLLOW_LINKS);
  }
}
