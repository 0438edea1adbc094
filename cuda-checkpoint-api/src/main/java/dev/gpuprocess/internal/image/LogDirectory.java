package dev.gpuprocess.internal.image;

import dev.gpuprocess.error.CriuReport;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.internal.linux.DirectoryMaker;
import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.linux.Leftovers;
import dev.gpuprocess.internal.linux.Ownership;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
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
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A temporary directory for CRIU's log and statistics. It is not in the image, which may be
 * read-only, and of which nothing is left after a failed dump, when the log is needed most. Its
 * name identifies its creator, so that leftovers of dead controllers are recognized.
 *
 * @param path the directory, mode 0700
 */
public record LogDirectory(Path path) {

  private static final Logger LOG = LoggerFactory.getLogger(LogDirectory.class);

  private static final String PREFIX = "gpuprocess-";

  /** Marks a directory that an exception has named. */
  static final String KEPT = "named-in-an-exception";

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
   * Creates it, and removes old ones that nobody needs any more.
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
    new OldLogs(temporary()).removeOutdated();
  }

  private static ImageException unmade(String operation, IOException e) {
    return new ImageException(
        ImageException.Reason.DIRECTORY,
        "a temporary directory for CRIU's log cannot be created (%s): set java.io.tmpdir to a directory that can be written"
            .formatted(e),
        Failure.of(operation, 0),
        e);
  }

  /**
   * Tells whether a recorded path has the name of a log directory.
   *
   * @param path a directory
   * @return true when it may be removed
   */
  public static boolean isOne(Path path) {
    return String.valueOf(path.getFileName()).startsWith(PREFIX);
  }

  /**
   * Tells whether a process has a file of this directory open. Only processes that we started can,
   * if {@link #make} created it: with mode 0700, and ours.
   *
   * @param process a process
   * @return false also when this is not such a directory
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
      LOG.warn("whether process {} writes to {} may not be known: {}", process, path, e.toString());
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
   * Removes the log directories of dead controllers from the temporary files, except those that an
   * exception has named not long ago.
   */
  public static void removeAbandoned() {
    new OldLogs(temporary()).removeAbandoned();
  }

  /**
   * Keeps the directory if an exception or one of its causes names a log in it, and removes it
   * otherwise.
   *
   * @param thrown what a dump or restore threw
   */
  public void endedWith(Throwable thrown) {
    if (isNamedIn(thrown)) {
      keep();
    } else {
      delete();
    }
  }

  /** Whether an exception names a log here. */
  boolean isNamedIn(Throwable thrown) {
    if (thrown instanceof CriuReport criu
        && criu.criu().log() != null
        && criu.criu().log().startsWith(path)) {
      return true;
    }
    return thrown.getCause() != null && isNamedIn(thrown.getCause());
  }

  /** Keeps it for some time, or as long as it is one of the newest. */
  void keep() {
    try {
      DurableFiles.write(path.resolve(KEPT), new byte[0]);
    } catch (IOException e) {
      LOG.warn("{} may be removed at once: {}", path, e.toString());
    }
    try {
      for (Path file : DurableFiles.list(path)) {
        LongLog.shorten(file, LongLog.PART);
      }
    } catch (IOException e) {
      LOG.warn("a log in {} may take much room: {}", path, e.toString());
    }
  }

  /** Removes it if it is empty. */
  void deleteIfEmpty() {
    try {
      Files.deleteIfExists(path);
    } catch (DirectoryNotEmptyException e) {
      LOG.debug("{} stays, because the exception names a log in it", path);
    } catch (IOException e) {
      LOG.warn("{} could not be removed: {}", path, e.toString());
    }
  }

  /** Removes it, if it exists. Not to be called when an exception names the log in it. */
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
   * Removes the usual files in it, if nobody else can write there: without a free descriptor it
   * cannot be listed.
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
