package dev.gpuprocess.criu.internal.links;

import dev.gpuprocess.internal.linux.Credentials;
import dev.gpuprocess.internal.linux.DirectoryTrust;
import dev.gpuprocess.internal.linux.FileSystemStatus;
import dev.gpuprocess.internal.linux.OpenedFile;
import dev.gpuprocess.internal.linux.UntrustedPaths;
import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.internal.time.IoFunction;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A hard link that a restore needs, and the content of its file in the images.
 *
 * @param link CRIU's name for the file
 * @param file the file at the time of the dump
 * @param user the credentials of a process that had the file open
 * @param names other names that it had in the same directory, such as that of a semaphore
 * @param content its bytes, in the images
 */
record HeldLink(Path link, FileNode file, Credentials user, List<String> names, Path content) {

  private static final Logger LOG = LoggerFactory.getLogger(HeldLink.class);

  private static final int PERMISSIONS = 0777;

  /** Receives each file that is created. */
  interface Made {
    void add(Path path, FileNode file);
  }

  /**
   * Works on the directory of the link with the permissions of its process. Where only root can
   * change the directory, and all above it, no user can have replaced it, so that our own
   * permissions do no harm.
   */
  <T> T work(Duration limit, IoFunction<UntrustedPaths, T> work) throws IOException {
    return isTrusted() ? UntrustedPaths.ours(limit, work) : UntrustedPaths.as(user, limit, work);
  }

  private boolean isTrusted() {
    Path directory = link.getParent();
    return directory != null && DirectoryTrust.isOurs(directory);
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
  void putBack(Duration limit, Made made) throws IOException {
    boolean isToBeWritten = work(limit, paths -> putBack(paths, made));
    if (isToBeWritten) {
      write(limit);
    }
  }

  private boolean putBack(UntrustedPaths paths, Made made) throws IOException {
    if (exists(paths, link)) {
      if (!isSame(paths, link) && !hasContent(paths)) {
        throw new IOException(link + " is not the file that the image needs there: move it away");
      }
      return false;
    }
    for (String name : names) {
      Path other = link.resolveSibling(name);
      if (isSame(paths, other)) {
        return linkTo(paths, other, made);
      }
    }
    create(paths, made);
    return false;
  }

  private static boolean exists(UntrustedPaths paths, Path path) throws IOException {
    return look(paths, path).isPresent();
  }

  private boolean isSame(UntrustedPaths paths, Path path) throws IOException {
    return look(paths, path).filter(file::isSameFile).isPresent();
  }

  private static Optional<FileNode> look(UntrustedPaths paths, Path path) throws IOException {
    Optional<OpenedFile> held = paths.hold(path);
    held.ifPresent(OpenedFile::close);
    return held.map(OpenedFile::node);
  }

  private boolean hasContent(UntrustedPaths paths) {
    try (OpenedFile there = paths.read(link).orElseThrow();
        InputStream in = Files.newInputStream(content)) {
      return there.hasContentOf(in);
    } catch (IOException notAFileThatCanBeRead) {
      return false;
    }
  }

  /** Returns whether the file is to be written. */
  private boolean linkTo(UntrustedPaths paths, Path other, Made made) throws IOException {
    paths.link(other, link);
    made.add(link, file);
    try (OpenedFile linked = paths.hold(link).orElseThrow(() -> replaced(other))) {
      if (!file.isSameFile(linked.node())) {
        throw replaced(other);
      }
      // A file in tmpfs is memory shared by processes: set it to what it was at the dump, like
      // theirs.
      return FileSystemStatus.of(linked.self()).isInMemory()
          && linked.node().bytes() == file.bytes();
    }
  }

  private static IOException replaced(Path path) {
    return new IOException(path + " was replaced just now");
  }

  /** Sets the content of a file that others share, unless the process may only read it. */
  private void write(Duration limit) throws IOException {
    try {
      UntrustedPaths.as(
          user,
          limit,
          paths -> {
            try (OpenedFile shared = paths.readAndWrite(link).orElseThrow(() -> replaced(link));
                InputStream in = Files.newInputStream(content)) {
              if (file.isSameFile(shared.node())) {
                shared.replace(in);
              }
            }
            return true;
          });
    } catch (AccessDeniedException e) {
      LOG.debug("{} is not set to what it was, as the process could not write to it", link, e);
    }
  }

  private void create(UntrustedPaths paths, Made made) throws IOException {
    try (OpenedFile created = paths.create(link)) {
      made.add(link, created.node());
      try (InputStream in = Files.newInputStream(content)) {
        created.replace(in);
      }
      paths.setOwner(created, file.user(), file.group());
      created.setMode(file.mode() & PERMISSIONS);
      for (String name : names) {
        Path other = link.resolveSibling(name);
        if (!exists(paths, other)) {
          paths.link(link, other);
          made.add(other, created.node());
        }
      }
    }
  }
}
