package dev.gpuprocess;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A file of which each byte stands for a pid: a JVM locks the byte while it works on that process.
 * The kernel takes the locks of a JVM away when it dies, so nothing is left to tidy up, and {@code
 * /proc/locks} tells who has one.
 */
final class LockFile {

  /** In place of a pid: the right to recover. */
  static final int RECOVERY = 0;

  private static final String NAME = "locks";

  private static final Path KERNEL_LOCKS = Path.of("/proc/locks");
  private static final Pattern KERNEL_LOCK =
      Pattern.compile("\\d+: POSIX +ADVISORY +WRITE +(\\d+) +\\w+:\\w+:(\\d+) +(\\d+) +(\\d+)");

  /**
   * A process that closes one descriptor of a file loses all its locks on it, so there is one for
   * all of this JVM. By inode; guards itself and every field of its values.
   */
  private static final Map<Object, LockFile> OPEN = new HashMap<>();

  private final Object inode;
  private final FileChannel channel;
  private int held;

  private LockFile(Object inode, FileChannel channel) {
    this.inode = inode;
    this.channel = channel;
  }

  /** Held until it is closed, or this JVM ends. */
  static final class Lock {

    private final LockFile file;
    private final FileLock lock;

    private Lock(LockFile file, FileLock lock) {
      this.file = file;
      this.lock = lock;
    }

    void release() throws IOException {
      synchronized (OPEN) {
        file.held--;
        try {
          lock.release();
        } finally {
          file.closeUnlessHeld();
        }
      }
    }
  }

  /**
   * Makes the directory for the file, and all above it.
   *
   * @throws IOException when that cannot be done
   */
  static void makeDirectory(Path directory) throws IOException {
    Files.createDirectories(
        directory,
        PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
  }

  /**
   * Locks a byte.
   *
   * @param number a pid, or {@link #RECOVERY}
   * @return empty when another JVM has it, or this one
   */
  static Optional<Lock> tryLock(Path directory, int number) throws IOException {
    makeDirectory(directory);
    Path path = directory.resolve(NAME);
    synchronized (OPEN) {
      while (true) {
        LockFile file = open(path);
        Optional<Lock> lock = file.tryLock(number);
        // Whoever tidies up may remove the file; then others lock another one.
        if (file.inode.equals(inode(path))) {
          return lock;
        }
        if (lock.isPresent()) {
          lock.get().release();
        }
      }
    }
  }

  private static LockFile open(Path path) throws IOException {
    Object inode = inode(path);
    LockFile file = OPEN.get(inode);
    if (file == null) {
      file = new LockFile(inode, FileChannel.open(path, StandardOpenOption.WRITE));
      OPEN.put(inode, file);
    }
    return file;
  }

  private static Object inode(Path path) throws IOException {
    try {
      return key(path);
    } catch (NoSuchFileException notYet) {
      try {
        Files.createFile(path);
      } catch (FileAlreadyExistsException made) {
        // By another JVM, just now.
        return key(path);
      }
      return key(path);
    }
  }

  private static Object key(Path path) throws IOException {
    return Objects.requireNonNull(
        Files.readAttributes(path, BasicFileAttributes.class).fileKey(), "no inodes here");
  }

  private Optional<Lock> tryLock(int number) throws IOException {
    try {
      FileLock lock = channel.tryLock(number, 1, false);
      if (lock != null) {
        held++;
        return Optional.of(new Lock(this, lock));
      }
    } catch (OverlappingFileLockException ours) {
      return Optional.empty();
    } finally {
      closeUnlessHeld();
    }
    return Optional.empty();
  }

  private void closeUnlessHeld() throws IOException {
    if (held == 0) {
      OPEN.remove(inode, this);
      channel.close();
    }
  }

  /**
   * Finds the process that has locked a byte, this JVM included.
   *
   * @return its pid; empty when the byte is not locked, and where the kernel does not tell
   */
  static OptionalInt holder(Path directory, int number) {
    Path path = directory.resolve(NAME);
    try {
      long inode = ((Number) Files.getAttribute(path, "unix:ino")).longValue();
      return Files.readAllLines(KERNEL_LOCKS).stream()
          .map(KERNEL_LOCK::matcher)
          .filter(Matcher::matches)
          .filter(lock -> Long.parseLong(lock.group(2)) == inode)
          // The kernel joins neighbouring bytes.
          .filter(lock -> Long.parseLong(lock.group(3)) <= number)
          .filter(lock -> Long.parseLong(lock.group(4)) >= number)
          .mapToInt(lock -> Integer.parseInt(lock.group(1)))
          .findFirst();
    } catch (IOException notTold) {
      return OptionalInt.empty();
    }
  }
}
