package dev.gpuprocess.criu.internal.links;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermission;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/**
 * A hard link that a restore needs, and the content of its file in the images.
 *
 * @param link CRIU's name for the file
 * @param file the file as it was when the tree was dumped
 * @param names other names that it had in the same directory, such as that of a semaphore
 * @param content its bytes, in the images
 */
record HeldLink(Path link, FileIdentity file, List<String> names, Path content) {

  /** Finds the other names of the file in its directory. */
  static List<String> otherNames(Path link, FileIdentity file) throws IOException {
    List<String> names = new ArrayList<>();
    try (DirectoryStream<Path> entries = Files.newDirectoryStream(directory(link))) {
      for (Path entry : entries) {
        if (!entry.equals(link) && FileIdentity.of(entry).filter(file::isSameFile).isPresent()) {
          names.add(String.valueOf(entry.getFileName()));
        }
      }
    } catch (DirectoryIteratorException e) {
      throw e.getCause();
    }
    return names;
  }

  private static Path directory(Path link) throws IOException {
    Path parent = link.getParent();
    if (parent == null) {
      throw new IOException(link + " is in no directory");
    }
    return parent;
  }

  /**
   * Puts the link where CRIU looks for it. A file that still exists under another name is linked
   * again, so that other processes that open it by that name share it with the tree; otherwise the
   * file is recreated from its content, with all the names that it had. An interrupt does not stop
   * this.
   *
   * @param made gets each path once it is created, the link first; nothing if the link exists
   * @throws IOException if another file has its name, or it cannot be created
   */
  void putBack(List<Path> made) throws IOException {
    if (Files.exists(link, LinkOption.NOFOLLOW_LINKS)) {
      Optional<FileIdentity> there = FileIdentity.of(link);
      if (there.filter(file::isSameFile).isEmpty()
          && (there.isEmpty() || Files.mismatch(link, content) >= 0)) {
        throw new IOException(link + " is not the file that the image needs there: move it away");
      }
      return;
    }
    for (String name : names) {
      Path other = link.resolveSibling(name);
      if (FileIdentity.of(other).filter(file::isSameFile).isPresent()) {
        linkTo(other, made);
        return;
      }
    }
    create(made);
  }

  private void linkTo(Path other, List<Path> made) throws IOException {
    Files.createLink(link, other);
    made.add(link);
    if (FileIdentity.of(link).filter(file::isSameFile).isEmpty()) {
      throw new IOException(other + " was replaced just now");
    }
    // A file in tmpfs is memory shared by processes: set it to what it was at the dump, like
    // theirs.
    if (Files.getFileStore(link).type().equals("tmpfs") && Files.size(link) == file.size()) {
      write();
    }
  }

  private void create(List<Path> made) throws IOException {
    Files.createFile(link);
    made.add(link);
    write();
    Files.setAttribute(link, "unix:uid", file.owner(), LinkOption.NOFOLLOW_LINKS);
    Files.setAttribute(link, "unix:gid", file.group(), LinkOption.NOFOLLOW_LINKS);
    Files.setPosixFilePermissions(link, permissions());
    for (String name : names) {
      Path other = link.resolveSibling(name);
      if (!Files.exists(other, LinkOption.NOFOLLOW_LINKS)) {
        Files.createLink(other, link);
        made.add(other);
      }
    }
  }

  private void write() throws IOException {
    try (OutputStream out =
            Files.newOutputStream(link, StandardOpenOption.WRITE, LinkOption.NOFOLLOW_LINKS);
        InputStream in = Files.newInputStream(content)) {
      in.transferTo(out);
    }
  }

  private Set<PosixFilePermission> permissions() {
    Set<PosixFilePermission> all = EnumSet.noneOf(PosixFilePermission.class);
    PosixFilePermission[] inOrder = PosixFilePermission.values();
    for (int i = 0; i < inOrder.length; i++) {
      if ((file.mode() & 0400 >> i) != 0) {
        all.add(inOrder[i]);
      }
    }
    return all;
  }
}
