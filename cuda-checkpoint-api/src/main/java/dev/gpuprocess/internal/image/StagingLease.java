package dev.gpuprocess.internal.image;

import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.linux.PinnedDirectory;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.internal.time.Threads;
import dev.gpuprocess.internal.time.Uninterrupted;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The sign that the maker of a staging directory is alive, for controllers that cannot see the
 * maker: those of other hosts, and of other pid namespaces. While an image is written, its maker
 * renews the change time of the directory. All times are those of the file system, as the clocks of
 * hosts differ. Safe for use by several threads.
 *
 * <p>If a lease ends by mistake, as of a host that was cut off from the file system, another
 * controller renames the directory before it removes anything: the maker's own rename fails then,
 * and its process stays.
 */
final class StagingLease implements AutoCloseable {

  /** The time without a renewal after which the maker counts as dead. */
  static final Duration TERM = Duration.ofMinutes(30);

  private static final Logger LOG = LoggerFactory.getLogger(StagingLease.class);
  private static final Duration RENEWAL = Duration.ofMinutes(1);

  private final PinnedDirectory directory;
  private final Duration renewal;
  private final CountDownLatch closed = new CountDownLatch(1);

  private StagingLease(PinnedDirectory directory, Duration renewal) {
    this.directory = directory;
    this.renewal = renewal;
  }

  /** Begins to renew the lease of a directory of this JVM, until it is closed. */
  static StagingLease of(PinnedDirectory directory) {
    return of(directory, RENEWAL);
  }

  static StagingLease of(PinnedDirectory directory, Duration renewal) {
    StagingLease lease = new StagingLease(directory, renewal);
    try {
      Threads.daemon("gpuprocess lease of " + directory.name(), lease::renew).start();
    } catch (OutOfMemoryError noThread) {
      LOG.warn("the lease of {} is not renewed: no thread can be started", directory.name());
    }
    return lease;
  }

  private void renew() {
    do {
      renewOnce();
    } while (!Uninterrupted.until(
        Deadline.after(renewal), left -> closed.await(left, TimeUnit.NANOSECONDS)));
  }

  private synchronized void renewOnce() {
    if (closed.getCount() == 0) {
      return;
    }
    try {
      // Sets the change time by the clock of the file system, also if the mode is the same.
      Files.setPosixFilePermissions(directory.path(), DurableFiles.PRIVATE_DIRECTORY);
    } catch (IOException e) {
      LOG.warn("the lease of {} is not renewed: {}", directory.name(), e.toString());
    }
  }

  /**
   * Returns whether the lease of a directory has ended.
   *
   * @param parent the directory above it, in which a temporary file is made
   */
  static boolean hasEnded(Path parent, Path directory, Duration term) throws IOException {
    Path now = Files.createTempFile(parent, ".gpuprocess-now-", "");
    try {
      return changed(directory).toInstant().plus(term).isBefore(changed(now).toInstant());
    } finally {
      Files.deleteIfExists(now);
    }
  }

  static FileTime changed(Path file) throws IOException {
    return (FileTime) Files.getAttribute(file, "unix:ctime", LinkOption.NOFOLLOW_LINKS);
  }

  /**
   * Ends the renewals. The directory is not changed after this, which waits for a renewal that is
   * under way.
   */
  @Override
  public synchronized void close() {
    closed.countDown();
  }
}
