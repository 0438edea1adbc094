package dev.gpuprocess.internal.linux;

import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.text.NativePath;
import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.Objects;

/**
 * A directory that is kept open by a descriptor. Users who can write to its parent can replace it
 * at any moment, but {@link #path} keeps referring to the directory that was checked. Not for use
 * by several threads.
 */
public final class PinnedDirectory implements AutoCloseable {

  private final Path name;
  private final OpenedFile held;

  private PinnedDirectory(Path name, OpenedFile held) {
    this.name = name;
    this.held = held;
  }

  /** Opens the directory that a path leads to. Links of other users are refused. */
  public static PinnedDirectory open(Path name) throws IOException {
    requireDirectory(name, name);
    return new PinnedDirectory(name, UntrustedPaths.ours().directory(name.toAbsolutePath()));
  }

  /** Opens the directory of this name; a link is refused as not a directory. */
  public static PinnedDirectory openItself(Path name) throws IOException {
    requireDirectory(name, name, LinkOption.NOFOLLOW_LINKS);
    OpenedFile held =
        UntrustedPaths.ours()
            .hold(name.toAbsolutePath())
            .orElseThrow(() -> new NoSuchFileException(name.toString()));
    return directory(name, held);
  }

  /** Opens a directory in this one; links are refused. */
  public PinnedDirectory child(String child) throws IOException {
    return child(NativePath.of(child));
  }

  /** Opens a directory in this one, whose name need not exist in the locale of this JVM. */
  public PinnedDirectory child(Path child) throws IOException {
    Path at = path().resolve(child);
    requireDirectory(name.resolve(child), at, LinkOption.NOFOLLOW_LINKS);
    return directory(name.resolve(child), OpenedFile.of(at, Descriptors.holdItself(at)));
  }

  private static void requireDirectory(Path name, Path at, LinkOption... options)
      throws IOException {
    if (!Files.readAttributes(at, BasicFileAttributes.class, options).isDirectory()) {
      throw new NotDirectoryException(name.toString());
    }
  }

  private static PinnedDirectory directory(Path name, OpenedFile held) throws FileSystemException {
    if (!held.node().isDirectory()) {
      held.close();
      throw new FileSystemException(name.toString(), null, "was replaced just now");
    }
    return new PinnedDirectory(name, held);
  }

  /** Returns a path to the directory, whatever its name leads to now, valid until closed. */
  public Path path() {
    return ProcFs.descriptor(held.descriptor());
  }

  /** Returns its path when it was opened. */
  public Path name() {
    return name;
  }

  /** Returns the path of a file in this directory as an operator knows it. */
  public Path shown(Path file) {
    return name.resolve(path().relativize(file));
  }

  /** Returns whether a path names this directory now, not through a link. */
  public boolean isAt(Path other) throws IOException {
    BasicFileAttributes there =
        Files.readAttributes(other, BasicFileAttributes.class, LinkOption.NOFOLLOW_LINKS);
    BasicFileAttributes here = Files.readAttributes(path(), BasicFileAttributes.class);
    return Objects.equals(there.fileKey(), here.fileKey());
  }

  /** Describes an error with the paths that an operator knows. */
  public String explain(IOException e) {
    String text = e.toString();
    if (e instanceof NoSuchFileException missing) {
      text = missing.getFile() + " does not exist";
    } else if (e instanceof AccessDeniedException denied) {
      text = denied.getFile() + " may not be read by this user";
    } else if (e instanceof FileSystemException failed && failed.getReason() != null) {
      text = failed.getFile() + ": " + failed.getReason();
    } else if (e.getClass() == IOException.class && e.getMessage() != null) {
      text = e.getMessage();
    }
    return text.replace(path().toString(), name.toString());
  }

  @Override
  public void close() {
    held.close();
  }
}
