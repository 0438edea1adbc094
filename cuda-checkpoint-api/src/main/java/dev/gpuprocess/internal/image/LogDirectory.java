package dev.gpuprocess.internal.image;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.linux.Descriptors;
import dev.gpuprocess.internal.linux.DirectoryMaker;
import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.linux.Leftovers;
import dev.gpuprocess.internal.linux.Ownership;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.AccessDeniedException;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A temporary directory for CRIU's log and statistics. The image may be read-only, and is removed
 * after a failed dump, when the log is needed most. The name of the directory identifies its
 * creator, so that leftovers of dead controllers are recognized.
 *
 * @param path the directory, mode 0700
 */
public record LogDirectory(Path path) {

  private static final Logger LOG = LoggerFactory.getLogger(LogDirectory.class);

  private static final String PREFIX = "gpuprocess-";

  /** Marks a directory that an exception has named. */
  static final String KEPT = "named-in-an-exception";

  /** The length of the beginning, and of the end, of a log that are kept in any case. */
  static final long LOG_PART = 32 << 20;

  private static final int PIECE = 1 << 20;

  private static final List<String> USUAL =
      List.of("criu.conf", "dump.log", "restore.log", "stats-dump", "stats-restore", KEPT);

  /**
   * Chooses a name among the temporary files without creating the directory, so that the name can
   * be recorded first.
   *
   * @param operation {@code dump} or {@code restore}
   * @return the directory, to be created
   * @throws ImageException with reason DIRECTORY when {@code /proc} cannot be read
   */
  public static LogDirectory planned(String operation) {
    try {
      return new LogDirectory(temporary().resolve(DirectoryMaker.temporaryName(operation)));
    } catch (IOException e) {
      throw unmade(operation, e);
    }
  }

  static Path temporary() {
    return Path.of(System.getProperty("java.io.tmpdir")).toAbsolutePath();
  }

  /**
   * Creates the directory, and removes outdated log directories.
   *
   * @throws ImageException with reason DIRECTORY when it cannot be created
   */
  public void make() {
    try {
      DurableFiles.createDirectory(path);
    } catch (FileAlreadyExistsException e) {
      throw unmade(String.valueOf(path.getFileName()), e);
    } catch (IOException e) {
      throw unmade("dump", e);
    }
    removeOutdated();
  }

  private static ImageException unmade(String operation, IOException e) {
    return new ImageException(
        ImageException.Reason.DIRECTORY,
        "a temporary directory for CRIU's log cannot be created (%s): set java.io.tmpdir to a directory that can be written"
            .formatted(e),
        Failure.of(operation, 0),
        e);
  }

  /** Returns whether a recorded path has the name of a log directory, which may be removed. */
  public static boolean isOne(Path path) {
    return String.valueOf(path.getFileName()).startsWith(PREFIX);
  }

  /**
   * Returns whether a process has a file of this directory open. If {@link #make} created the
   * directory, only processes started by this library can have one.
   *
   * @return false also when this is not a log directory
   */
  public boolean isHeldBy(ProcessIdentity process) {
    try {
      if (!isOne(path)
          || !Files.isDirectory(path, LinkOption.NOFOLLOW_LINKS)
          || !Ownership.of(path).isSecret()) {
        return false;
      }
      Set<Object> files = new HashSet<>();
      for (Path file : DurableFiles.list(path)) {
        files.add(keyOf(file, LinkOption.NOFOLLOW_LINKS));
      }
      Path descriptors = ProcFs.file(process.pid(), "fd");
      for (Path descriptor : DurableFiles.list(descriptors)) {
        if (files.contains(keyOfOpen(descriptor))) {
          return process.isAlive();
        }
      }
      return false;
    } catch (AccessDeniedException e) {
      LOG.warn("it is unknown whether process {} writes to {}: {}", process, path, e.toString());
      return false;
    } catch (IOException e) {
      if (!process.isAlive()) {
        return false;
      }
      throw new ProcessUnreadableException(
          "it cannot be found out whether process %s writes to %s (%s): try again"
              .formatted(process.pid(), path, e),
          Failure.of("recover", process.pid()),
          e);
    }
  }

  private static Object keyOfOpen(Path descriptor) throws IOException {
    try {
      return keyOf(descriptor);
    } catch (NoSuchFileException closedMeanwhile) {
      return descriptor;
    }
  }

  private static Object keyOf(Path file, LinkOption... options) throws IOException {
    Object key = Files.readAttributes(file, BasicFileAttributes.class, options).fileKey();
    return key == null ? file : key;
  }

  /**
   * Removes outdated log directories from the temporary files. A directory that a dead controller
   * left within the last hour stays, because a recovery with another state directory may need them.
   */
  public static void removeOutdated() {
    new OldLogs(temporary()).removeOutdated();
  }

  /**
   * Keeps the directory if an exception or one of its causes names a log in it, and removes it
   * otherwise.
   *
   * @param thrown the exception of a dump or restore
   */
  public void endedWith(Throwable thrown) {
    if (isNamedIn(thrown)) {
      keep();
    } else {
      delete();
    }
  }

  /** Returns whether an exception names a log in this directory. */
  boolean isNamedIn(Throwable thrown) {
    if (thrown instanceof GpuCheckpointException known
        && known
            .criu()
            .flatMap(criu -> Optional.ofNullable(criu.log()))
            .filter(log -> log.startsWith(path))
            .isPresent()) {
      return true;
    }
    return thrown.getCause() != null && isNamedIn(thrown.getCause());
  }

  /** Keeps the directory for some time, or longer while it is one of the newest. */
  void keep() {
    try {
      DurableFiles.write(path.resolve(KEPT), new byte[0]);
    } catch (IOException e) {
      LOG.warn("{} may be removed at once: {}", path, e.toString());
    }
    try {
      for (Path file : DurableFiles.list(path)) {
        shorten(file, LOG_PART);
      }
    } catch (IOException e) {
      LOG.warn("a log in {} may be large: {}", path, e.toString());
    }
  }

  /**
   * Removes the middle of a long log, in place, because the disk may be full. CRIU repeats itself
   * on some broken images and is killed only when its log has a GiB.
   *
   * @param part bytes at the beginning, and at the end, that stay
   */
  static void shorten(Path log, long part) throws IOException {
    if (Files.size(log) <= 2 * part) {
      return; // without opening it, which needs a descriptor, and a permission if CRIU is root's
    }
    try (RandomAccessFile file = Descriptors.readAndWrite(log)) {
      long size = file.length();
      byte[] note =
          "\n(%s bytes are omitted here)\n"
              .formatted(size - 2 * part)
              .getBytes(StandardCharsets.UTF_8);
      if (size <= 2 * part + note.length) {
        return;
      }
      file.seek(part);
      file.write(note);
      file.setLength(moved(file, size - part, part + note.length));
    }
  }

  /** Moves the end of a file to an earlier position, and returns where it ends there. */
  private static long moved(RandomAccessFile file, long from, long to) throws IOException {
    byte[] piece = new byte[PIECE];
    long moved = 0;
    while (true) {
      file.seek(from + moved);
      int count = file.read(piece);
      if (count < 0) {
        return to + moved;
      }
      file.seek(to + moved);
      file.write(piece, 0, count);
      moved += count;
    }
  }

  /** Removes the directory if it is empty. */
  void deleteIfEmpty() {
    try {
      Files.deleteIfExists(path);
    } catch (DirectoryNotEmptyException e) {
      LOG.debug("{} stays, because the exception names a log in it", path);
    } catch (IOException e) {
      LOG.warn("{} could not be removed: {}", path, e.toString());
    }
  }

  /** Removes the directory. Not to be called when an exception names a log in it. */
  public void delete() {
    try {
      remove();
    } catch (IOException e) {
      Leftovers.add(path, this::remove);
      LOG.warn("{} could not be removed: {}", path, e.toString());
    }
  }

  private void remove() throws IOException {
    try {
      DurableFiles.delete(path);
    } catch (IOException e) {
      removeUnseen(e);
    }
  }

  /**
   * Removes the usual files, if only this user can write to the directory: without a free
   * descriptor it cannot be listed.
   */
  private void removeUnseen(IOException why) throws IOException {
    try {
      if (Files.isDirectory(path, LinkOption.NOFOLLOW_LINKS) && Ownership.of(path).isSecret()) {
        for (String name : USUAL) {
          Files.deleteIfExists(path.resolve(name));
        }
        Files.deleteIfExists(path);
        return;
      }
    } catch (IOException e) {
      why.addSuppressed(e);
    }
    throw why;
  }
}
