package dev.gpuprocess.internal.store;

import dev.gpuprocess.error.DiskFullException;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageDirectoryException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.image.Checksum;
import dev.gpuprocess.image.ImageFile;
import dev.gpuprocess.image.ImageKey;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.internal.os.Descriptors;
import dev.gpuprocess.internal.os.DurableFiles;
import dev.gpuprocess.internal.os.PinnedDirectory;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * An image that is being made. It grows in a directory beside its final place, {@code
 * .gpuprocess-....partial}, and gets its name in one atomic step when it is complete and on disk.
 * Closing removes what was not published. For one thread at a time.
 */
public final class StagedImage implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger(StagedImage.class);

  private final StagingDirectory staging;
  private final Path target;
  private final int pid;
  private final @Nullable ImageKey key;
  private final EarlyWriteback writeback;
  private final LogDirectory log;
  private boolean published;
  private boolean logUnwanted;
  private @Nullable Throwable ending;

  private StagedImage(
      StagingDirectory staging, Path target, int pid, @Nullable ImageKey key, LogDirectory log) {
    this.staging = staging;
    this.target = target;
    this.pid = pid;
    this.key = key;
    this.log = log;
    this.writeback = EarlyWriteback.of(staging.images());
  }

  /**
   * Starts an image.
   *
   * @param directory where it will be: does not exist yet, or is empty; the directories above it
   *     are made if they are missing
   * @param process for whom; named in exceptions and by {@link #abandonedIn}
   * @param expectedBytes how much room it will need
   * @param key what the image will be signed with; null for none
   * @return the image, its empty directories made
   * @throws ImageDirectoryException when the directory cannot be used
   * @throws DiskFullException when the file system has less room than expected
   */
  public static StagedImage create(
      Path directory, ProcessIdentity process, long expectedBytes, @Nullable ImageKey key) {
    return create(directory, process, expectedBytes, key, LogDirectory.planned("dump"));
  }

  /**
   * Starts an image whose log has its place already.
   *
   * @param directory where it will be: does not exist yet, or is empty; the directories above it
   *     are made if they are missing
   * @param process for whom; named in exceptions and by {@link #abandonedIn}
   * @param expectedBytes how much room it will need
   * @param key what the image will be signed with; null for none
   * @param log where {@link #work} will be
   * @return the image, its empty directories made
   * @throws ImageDirectoryException when the directory cannot be used
   * @throws DiskFullException when the file system has less room than expected
   */
  public static StagedImage create(
      Path directory,
      ProcessIdentity process,
      long expectedBytes,
      @Nullable ImageKey key,
      LogDirectory log) {
    int pid = process.pid();
    PinnedDirectory held;
    Path target;
    try {
      target = ImagePlace.of(directory);
      held = PinnedDirectory.open(Objects.requireNonNull(target.getParent()));
    } catch (IOException e) {
      String why = "no image can be made at %s: %s".formatted(directory, ImagePlace.reason(e));
      throw failed(pid, e, unusable(pid, why, e));
    }
    try {
      requireUnused(held, target, pid);
      requireRoom(held, expectedBytes, pid);
      removeAbandoned(held);
      return new StagedImage(StagingDirectory.make(held, process), target, pid, key, log);
    } catch (IOException e) {
      held.close();
      throw failed(
          pid,
          e,
          unusable(pid, "no image can be written in " + held.name() + ": " + held.explain(e), e));
    } catch (RuntimeException | Error e) {
      held.close();
      throw e;
    }
  }

  /**
   * Says whether an image can be made, and makes nothing.
   *
   * @param directory where it would be
   * @param process for whom; named in exceptions
   * @param expectedBytes how much room it would need
   * @return the room that there is, in bytes
   * @throws ImageDirectoryException when the directory cannot be used
   * @throws DiskFullException when the file system has less room than expected
   */
  public static long check(Path directory, ProcessIdentity process, long expectedBytes) {
    int pid = process.pid();
    try {
      Path nearest = ImagePlace.nearest(directory);
      if (!Files.isDirectory(nearest)) {
        throw unusable(
            pid,
            "no image can be made at " + directory + ": " + nearest + " is not a directory",
            null);
      }
      if (!Files.isWritable(nearest)) {
        throw unusable(
            pid,
            "no image can be made at " + directory + ": " + nearest + " cannot be written",
            null);
      }
      try (PinnedDirectory held = PinnedDirectory.open(nearest)) {
        if (ImagePlace.isDirectlyIn(directory, nearest)) {
          requireUnused(held, ImagePlace.of(directory), pid);
        }
        requireRoom(held, expectedBytes, pid);
        return held.path().toFile().getUsableSpace();
      }
    } catch (IOException e) {
      throw unusable(
          pid, "no image can be made at %s: %s".formatted(directory, ImagePlace.reason(e)), e);
    }
  }

  /**
   * Nobody else may come to remove what a maker left that died: its journal may be gone. Not what
   * was made before this machine was started, or on another one that has this directory too.
   */
  private static void removeAbandoned(PinnedDirectory parent) {
    try {
      removeAbandonedIn(parent.name());
    } catch (ImageException e) {
      LOG.warn("half images in {} stay: {}", parent.name(), e.getMessage());
    }
  }

  /**
   * Removes the half images that makers of this machine left when they died since it was started;
   * those of other machines that have the directory too are not touched.
   *
   * @param parent where images are
   * @throws ImageException when one cannot be removed, or the directory cannot be read
   */
  public static void removeAbandonedIn(Path parent) {
    abandonedIn(parent).stream()
        .filter(half -> half.process().isPresent())
        .forEach(AbandonedImage::remove);
  }

  private static void requireUnused(PinnedDirectory parent, Path target, int pid)
      throws IOException {
    Path there = parent.path().resolve(target.getFileName());
    if (!Files.exists(there, LinkOption.NOFOLLOW_LINKS)) {
      return;
    }
    if (!Files.isDirectory(there, LinkOption.NOFOLLOW_LINKS)) {
      throw unusable(pid, target + " is not a directory: name one that does not exist yet", null);
    }
    if (!DurableFiles.list(there).isEmpty()) {
      throw unusable(pid, target + " is not empty: an image never replaces anything", null);
    }
    if (!Files.getAttribute(there, "unix:dev")
        .equals(Files.getAttribute(parent.path(), "unix:dev"))) {
      throw unusable(
          pid, "a file system is mounted on " + target + ": name a directory in it", null);
    }
  }

  private static void requireRoom(PinnedDirectory parent, long expectedBytes, int pid) {
    long room = parent.path().toFile().getUsableSpace();
    if (room < expectedBytes && parent.path().toFile().getTotalSpace() == 0) {
      throw unusable(
          pid,
          parent.name() + " is on a file system that stores nothing, such as /proc: choose another",
          null);
    }
    if (room < expectedBytes) {
      throw new DiskFullException(
          "%s has room for %s MiB and the image of process %s needs about %s MiB: free some or use another file system"
              .formatted(parent.name(), room >> 20, pid, expectedBytes >> 20),
          Failure.of("dump", pid));
    }
  }

  private static ImageDirectoryException unusable(int pid, String why, @Nullable Throwable cause) {
    return new ImageDirectoryException(why, Failure.of("dump", pid), cause);
  }

  /** A full disk has a type of its own wherever it is met. */
  private static ImageException failed(int pid, IOException cause, ImageException otherwise) {
    String reason =
        String.valueOf(
            cause instanceof FileSystemException failed ? failed.getReason() : cause.getMessage());
    return Descriptors.saysFull(reason)
        ? new DiskFullException(
            otherwise.getMessage() + ": free some room or use another file system",
            Failure.of("dump", pid),
            cause)
        : otherwise;
  }

  /**
   * Where CRIU writes its image files. The path leads over a descriptor of this process ({@code
   * /proc/self/fd}), so another process has to be given a descriptor of it.
   *
   * @return an existing directory, until this is closed
   */
  public Path images() {
    return staging.images();
  }

  /**
   * Where CRIU writes its log and statistics: a temporary directory. It stays when this is closed,
   * because exceptions name the log, except after {@link #logUnwanted}.
   *
   * @return an existing directory
   * @throws ImageDirectoryException when there is no room for one
   */
  public Path work() {
    if (!Files.isDirectory(log.path())) {
      log.make();
    }
    return log.path();
  }

  /**
   * Writes a file beside those of CRIU; the manifest will name it too.
   *
   * @param name its name
   * @param content what is in it
   * @throws DiskFullException when the file system has no room for it
   * @throws ImageException when it cannot be written
   */
  public void add(String name, byte[] content) {
    try {
      Files.write(images().resolve(name), content);
    } catch (IOException e) {
      String why =
          "the image of process %s could not be completed at %s: %s"
              .formatted(pid, target, staging.held().explain(e));
      throw failed(pid, e, new ImageException(why, Failure.of("dump", pid), e));
    }
  }

  /**
   * Checks that the memory is complete, sums and syncs every image file, writes the manifest, and
   * gives the image its name. When this returns the image survives a loss of power. Not bounded in
   * time: a disk that hangs holds it up, and so it does {@link #close}.
   *
   * @param manifest makes the manifest from the list of files
   * @return the image
   * @throws DiskFullException when the file system had no room for it
   * @throws ImageException when anything else is wrong; nothing has the image's name once this is
   *     closed
   */
  public ImageDirectory publish(Function<List<ImageFile>, Manifest> manifest) {
    PinnedDirectory image = staging.held();
    writeback.close();
    try {
      Checksum checksum = key == null ? Checksum.CRC32C : Checksum.SHA256;
      Manifest sealed = manifest.apply(ImageSealer.files(staging, checksum, pid));
      write(sealed);
      DurableFiles.sync(staging.images());
      DurableFiles.sync(image.path());
      staging.moveTo(target);
      published = true;
      return new ImageDirectory(target, sealed);
    } catch (IOException e) {
      String why =
          "the image of process %s could not be made durable at %s: %s"
              .formatted(pid, target, image.explain(e));
      throw failed(pid, e, new ImageException(why, Failure.of("dump", pid), e));
    }
  }

  private void write(Manifest manifest) throws IOException {
    Path image = staging.held().path();
    byte[] text = ManifestFile.write(manifest);
    byte[] sum = ManifestFile.sum(text);
    byte[] code = key == null ? null : ManifestFile.code(text, key);
    // The process is about to die for this image, so it has to be one that can be opened.
    ManifestFile.read(target.resolve(ManifestFile.NAME), text, sum, code, key);
    DurableFiles.write(image.resolve(ManifestFile.NAME), text);
    DurableFiles.write(image.resolve(ManifestFile.SUM_NAME), sum);
    if (code != null) {
      DurableFiles.write(image.resolve(ManifestFile.CODE_NAME), code);
    }
  }

  /** Takes a published image back when this is closed, because its process lives on. */
  public void retractWhenClosed() {
    published = false;
  }

  /** Says that nobody will want CRIU's log: CRIU did its part. */
  public void logUnwanted() {
    logUnwanted = true;
  }

  /**
   * Says what a dump came to: nobody will want CRIU's log unless this names it.
   *
   * @param thrown what will be told
   */
  public void endedWith(Throwable thrown) {
    ending = thrown;
  }

  /** Removes what was not published, and the log when nobody will want it. */
  @Override
  public void close() {
    writeback.close();
    if (!published) {
      remove();
    }
    staging.close();
    if (logUnwanted) {
      log.delete();
    } else if (ending != null) {
      log.endedWith(ending);
    } else {
      log.deleteIfEmpty();
    }
  }

  private void remove() {
    try {
      staging.remove();
    } catch (IOException e) {
      // Failing for this would hide why we are here; abandonedIn finds what is left.
      LOG.warn("{} could not be removed: {}", staging.held().name(), staging.held().explain(e));
    }
  }

  /**
   * Finds the half images that makers left when they died. Those of makers that live are left out,
   * also those of other JVMs on this machine. A directory that several machines share must not be
   * asked: makers on another machine cannot be seen.
   *
   * @param parent where images are
   * @return what can be removed; empty when there is no such directory
   * @throws ImageDirectoryException when the directory cannot be read
   */
  public static List<AbandonedImage> abandonedIn(Path parent) {
    if (!Files.isDirectory(parent)) {
      return List.of();
    }
    List<AbandonedImage> found = new ArrayList<>();
    try {
      for (Path entry : DurableFiles.list(parent)) {
        AbandonedImage.of(entry).ifPresent(found::add);
      }
    } catch (IOException e) {
      throw new ImageDirectoryException(
          parent + " cannot be searched for half images: " + e, Failure.of("recover", 0), e);
    }
    return found;
  }
}
