package dev.gpuprocess.internal.store;

import dev.gpuprocess.error.DiskFullException;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageDirectoryException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.image.Checksum;
import dev.gpuprocess.image.ImageFile;
import dev.gpuprocess.image.ImageKey;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.internal.os.DurableFiles;
import dev.gpuprocess.internal.os.PinnedDirectory;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
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
   * @param process for whom; named in exceptions and by {@link AbandonedImage#in}
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
   * @param process for whom; named in exceptions and by {@link AbandonedImage#in}
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
      throw ImageTarget.failed(pid, e, ImageTarget.unusable(pid, why, e));
    }
    try {
      ImageTarget.requireUnused(held, target, pid);
      ImageTarget.requireRoom(held, expectedBytes, pid);
      removeAbandoned(held);
      return new StagedImage(StagingDirectory.make(held, process), target, pid, key, log);
    } catch (IOException e) {
      held.close();
      throw ImageTarget.failed(
          pid,
          e,
          ImageTarget.unusable(pid, "no image can be written in " + held.name() + ": " + held.explain(e), e));
    } catch (RuntimeException | Error e) {
      held.close();
      throw e;
    }
  }

  /**
   * Nobody else may come to remove what a maker left that died: its journal may be gone. Not what
   * was made before this machine was started, or on another one that has this directory too.
   */
  private static void removeAbandoned(PinnedDirectory parent) {
    try {
      AbandonedImage.removeIn(parent.name());
    } catch (ImageException e) {
      LOG.warn("half images in {} stay: {}", parent.name(), e.getMessage());
    }
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
      throw ImageTarget.failed(pid, e, new ImageException(why, Failure.of("dump", pid), e));
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
      throw ImageTarget.failed(pid, e, new ImageException(why, Failure.of("dump", pid), e));
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
      // Failing for this would hide why we are here; AbandonedImage.in finds what is left.
      LOG.warn("{} could not be removed: {}", staging.held().name(), staging.held().explain(e));
    }
  }
}
