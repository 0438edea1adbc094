package dev.gpuprocess.internal.os;

import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.Objects;

/**
 * A directory held by a descriptor. Whoever may write in its parent can put another directory in
 * its place at any moment; {@link #path} goes on to mean the one that was looked at.
 */
final class PinnedDirectory implements AutoCloseable {

  private final Path name;
  private final int descriptor;
  private boolean closed;

  private PinnedDirectory(Path name, int descriptor) {
    this.name = name;
    this.descriptor = descriptor;
  }

  /** Holds the directory that a name leads to, through links too. */
  static PinnedDirectory open(Path name) throws IOException {
    return opened(name, name);
  }

  /** Holds the directory of this very name; a link is refused as what it is: no directory. */
  static PinnedDirectory openItself(Path name) throws IOException {
    return opened(name, name, LinkOption.NOFOLLOW_LINKS);
  }

  /** Holds a directory in this one. */
  PinnedDirectory child(String child) throws IOException {
    return opened(name.resolve(child), path().resolve(child), LinkOption.NOFOLLOW_LINKS);
  }

  private static PinnedDirectory opened(Path name, Path at, LinkOption... options)
      throws IOException {
    BasicFileAttributes expected = Files.readAttributes(at, BasicFileAttributes.class, options);
    if (!expected.isDirectory()) {
      throw new NotDirectoryException(name.toString());
    }
    PinnedDirectory held = new PinnedDirectory(name, Descriptors.hold(at));
    try {
      BasicFileAttributes found = Files.readAttributes(held.path(), BasicFileAttributes.class);
      if (!Objects.equals(found.fileKey(), expected.fileKey())) {
        throw new FileSystemException(name.toString(), null, "was replaced just now");
      }
      return held;
    } catch (IOException e) {
      held.close();
      throw e;
    }
  }

  /** The directory, wherever its name leads now. Good in this process, until closed. */
  Path path() {
    return Path.of("/proc/self/fd/" + descriptor);
  }

  /** What it was called when it was opened. */
  Path name() {
    return name;
  }

  /** A file in here by the name that an operator knows. */
  Path shown(Path file) {
    return name.resolve(path().relativize(file));
  }

  /** Whether a name leads to this very directory now, itself and not through a link. */
  boolean isAt(Path other) throws IOException {
    BasicFileAttributes there =
        Files.readAttributes(other, BasicFileAttributes.class, LinkOption.NOFOLLOW_LINKS);
    BasicFileAttributes here = Files.readAttributes(path(), BasicFileAttributes.class);
    return Objects.equals(there.fileKey(), here.fileKey());
  }

  /** Says why, with the names that an operator knows. */
  String explain(IOException e) {
    String text = e.toString();
    if (e instanceof NoSuchFileException missing) {
      text = missing.getFile() + " does not exist";
    } else if (e instanceof FileSystemException failed && failed.getReason() != null) {
      text = failed.getFile() + ": " + failed.getReason();
    } else if (e.getClass() == IOException.class && e.getMessage() != null) {
      text = e.getMessage();
    }
    return text.replace(path().toString(), name.toString());
  }

  @Override
  public void close() {
    if (!closed) {
      closed = true;
      Descriptors.close(descriptor);
    }
  }
}
