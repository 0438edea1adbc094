package dev.gpuprocess.image;

import dev.gpuprocess.ProcessIdentity;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageDirectoryException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.HashSet;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A temporary directory for CRIU's log and statistics. It is not in the image, which may be read
 * only, and of which nothing is left after a failed dump, when the log is wanted most.
 *
 * @param path the directory, mode 0700
 */
public record LogDirectory(Path path) {

  private static final Logger LOG = LoggerFactory.getLogger(LogDirectory.class);

  private static final String PREFIX = "gpuprocess-";

  /**
   * Makes a directory where the JVM puts temporary files.
   *
   * @return the directory
   * @throws ImageDirectoryException when there is no room for one
   */
  public static LogDirectory create() {
    return create("restore");
  }

  static LogDirectory create(String operation) {
    try {
      return new LogDirectory(Files.createTempDirectory(PREFIX + operation + "-"));
    } catch (IOException e) {
      throw new ImageDirectoryException(
          "no temporary directory for CRIU's log can be made: set java.io.tmpdir to one that can",
          Failure.of(operation, 0),
          e);
    }
  }

  /**
   * Tells whether a directory has the name of one, for those who find its path written down.
   *
   * @param path a directory
   * @return true when it may be removed
   */
  public static boolean isOne(Path path) {
    return String.valueOf(path.getFileName()).startsWith(PREFIX);
  }

  /**
   * Tells whether a process has a file open that is in it. Only what we started can, if it is what
   * {@link #create} made: of mode 0700, and ours.
   *
   * @param process a process
   * @return false also when this is no such directory
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
      Path descriptors = Path.of("/proc", Integer.toString(process.pid()), "fd");
      for (Path descriptor : DurableFiles.list(descriptors)) {
        if (files.contains(keyOfOpen(descriptor))) {
          return process.isAlive();
        }
      }
      return false;
    } catch (IOException e) {
      LOG.warn("whether process {} writes to {} is not known: {}", process, path, e.toString());
      return false;
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
   * Tells whether an exception, or a cause of it, names a log in it.
   *
   * @param thrown what a dump or restore came to
   * @return false when nobody will look for a log here
   */
  public boolean isNamedIn(Throwable thrown) {
    if (thrown instanceof CriuException criu
        && criu.criu().log() != null
        && criu.criu().log().startsWith(path)) {
      return true;
    }
    return thrown.getCause() != null && isNamedIn(thrown.getCause());
  }

  /** Removes it if nothing was written there. */
  void deleteIfEmpty() {
    try {
      if (DurableFiles.list(path).isEmpty()) {
        Files.delete(path);
      }
    } catch (IOException e) {
      LOG.warn("{} could not be removed: {}", path, e.toString());
    }
  }

  /** Removes it. Not done after a failure, since the exception names the log in it. */
  public void delete() {
    try {
      DurableFiles.delete(path);
    } catch (IOException e) {
      LOG.warn("{} could not be removed: {}", path, e.toString());
    }
  }
}
