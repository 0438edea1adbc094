package dev.gpuprocess.internal.image;

import dev.gpuprocess.error.DiskFullException;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.image.Checksum;
import dev.gpuprocess.image.ImageFile;
import dev.gpuprocess.image.ImageKey;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.image.MemoryFile;
import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.linux.FileSystemStatus;
import dev.gpuprocess.internal.linux.PinnedDirectory;
import dev.gpuprocess.internal.state.ImageEntry;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * An image that is being written. It is written to a directory {@code .gpuprocess-....partial}
 * beside its final place, and gets its name in one atomic step when it is complete and on disk.
 * Closing removes an image that was not published. For one thread at a time.
 */
public final class StagedImage implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger(StagedImage.class);

  private final StagingDirectory staging;
  private final Path target;
  private final int pid;
  private final @Nullable ImageKey key;
  private final EarlyWriteback writeback;
  private final LogDirectory log;
  private final List<ImageFile> memory = new ArrayList<>();
  private boolean published;
  private boolean logUnwanted;
  private boolean closed;
  private @Nullable Throwable ending;
  private @Nullable ImageEntry entry;

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
   * @param directory where it will be; must not exist, or be empty; missing directories above it
   *     are created
   * @param process the process to dump, named in exceptions and by {@link AbandonedImage#in}
   * @param expectedBytes how much space it will need
   * @param key the key to sign the image with; null for none
   * @return the image, with empty directories
   * @throws ImageException with reason DIRECTORY when the directory cannot be used
   * @throws DiskFullException when the file system has too little space
   */
  public static StagedImage create(
      Path directory, ProcessIdentity process, long expectedBytes, @Nullable ImageKey key) {
    return create(directory, process, expectedBytes, key, LogDirectory.planned("dump"));
  }

  /**
   * Starts an image whose log directory is already chosen.
   *
   * @param directory where it will be; must not exist, or be empty; missing directories above it
   *     are created
   * @param process the process to dump, named in exceptions and by {@link AbandonedImage#in}
   * @param expectedBytes how much space it will need
   * @param key the key to sign the image with; null for none
   * @param log where {@link #work} will be
   * @return the image, with empty directories
   * @throws ImageException with reason DIRECTORY when the directory cannot be used
   * @throws DiskFullException when the file system has too little space
   */
  public static StagedImage create(
      Path directory,
      ProcessIdentity process,
      long expectedBytes,
      @Nullable ImageKey key,
      LogDirectory log) {
    int pid = process.pid();
    Failure failure = Failure.of("dump", pid);
    ImageTarget target = ImageTarget.open(directory, expectedBytes, failure);
    try {
      removeAbandoned(target.parent());
      return new StagedImage(
          StagingDirectory.make(target.parent(), process), target.path(), pid, key, log);
    } catch (IOException e) {
      target.parent().close();
      throw ImageTarget.unwritable(target.parent(), e, failure);
    } catch (RuntimeException | Error e) {
      target.parent().close();
      throw e;
    }
  }

  /**
   * Has the journal entry of this image removed when this is closed.
   *
   * @param written before this was created
   */
  public void removesWhenClosed(ImageEntry written) {
    entry = written;
  }

  /**
   * Removes what dead makers left: nothing else may ever do so, as their journal may be gone.
   * Spares partial images from before the last boot, or of other machines that share the directory.
   */
  static void removeAbandoned(PinnedDirectory parent) {
    try {
      AbandonedImage.removeIn(parent.name());
    } catch (ImageException e) {
      LOG.warn("partial images in {} could not be removed: {}", parent.name(), e.getMessage());
    }
  }

  /**
   * The directory that CRIU writes its image files to. The path goes through a descriptor of this
   * process ({@code /proc/self/fd}), so another process must be given a descriptor of it.
   *
   * @return an existing directory, until this is closed
   */
  public Path images() {
    return staging.images();
  }

  /** Whether it is on a file system in memory, which keeps nothing on a disk. */
  public boolean isInMemory() {
    try {
      return FileSystemStatus.of(images()).isInMemory();
    } catch (IOException e) {
      throw incomplete(e);
    }
  }

  /**
   * The temporary directory that CRIU writes its log and statistics to. It stays when this is
   * closed, because exceptions name the log, except after {@link #logUnwanted}.
   *
   * @return an existing directory
   * @throws ImageException with reason DIRECTORY when it cannot be created
   */
  public Path work() {
    if (!Files.isDirectory(log.path())) {
      log.make();
    }
    return log.path();
  }

  /**
   * Writes a file beside those of CRIU; the manifest will list it too.
   *
   * @param name its name
   * @param content its content
   * @throws DiskFullException when the file system is full
   * @throws ImageException when it cannot be written
   */
  public void add(String name, byte[] content) {
    try {
      Files.write(images().resolve(name), content);
    } catch (IOException e) {
      throw incomplete(e);
    }
  }

  /**
   * Makes the directory for memory files, which are written beside CRIU's files, unless it is
   * there.
   *
   * @return the directory, with what was said of {@link #images}
   * @throws DiskFullException when the file system is full
   * @throws ImageException when it cannot be made
   */
  public Path makeMemoryDirectory() {
    Path directory = staging.held().path().resolve(MemoryFile.DIRECTORY);
    try {
      if (!Files.isDirectory(directory, LinkOption.NOFOLLOW_LINKS)) {
        DurableFiles.createDirectory(directory);
      }
      return directory;
    } catch (IOException e) {
      throw incomplete(e);
    }
  }

  /**
   * Removes memory files that were added, and their directory after the last one.
   *
   * @param files some that were added
   * @throws ImageException when they cannot be removed
   */
  public void removeMemory(List<ImageFile> files) {
    Path directory = staging.held().path().resolve(MemoryFile.DIRECTORY);
    try {
      for (ImageFile each : files) {
        Files.deleteIfExists(staging.held().path().resolve(each.path()));
      }
      memory.removeAll(files);
      if (memory.isEmpty()) {
        DurableFiles.delete(directory);
      }
    } catch (IOException e) {
      throw incomplete(e);
    }
  }

  /**
   * Adds a memory file that is complete; the manifest will list it too.
   *
   * @param file the file, with its checksums
   */
  public void addMemory(ImageFile file) {
    memory.add(file);
  }

  /** Which checksums the files of this image have. */
  public Checksum checksum() {
    return key == null ? Checksum.CRC32C : Checksum.SHA256;
  }

  /**
   * What a failure to write one of its files is thrown as.
   *
   * @param e the failure
   * @return of a type of its own when the disk is full
   */
  public ImageException incomplete(IOException e) {
    String why =
        "the image of process %s could not be completed at %s: %s"
            .formatted(pid, target, staging.held().explain(e));
    Failure failure = Failure.of("dump", pid);
    return ImageTarget.failed(
        failure, e, new ImageException(ImageException.Reason.UNWRITABLE, why, failure, e));
  }

  /**
   * Checks that the memory is complete, computes the checksum of every image file and syncs it,
   * writes the manifest, and gives the image its name. When this returns, the image survives a
   * power failure. Not bounded in time: a disk that hangs blocks this method and {@link #close}.
   *
   * @param manifest creates the manifest from the list of files
   * @return the image
   * @throws DiskFullException when the file system is full
   * @throws ImageException when anything else is wrong; closing this then leaves nothing at the
   *     image's path
   */
  public ImageDirectory publish(Function<List<ImageFile>, Manifest> manifest) {
    PinnedDirectory image = staging.held();
    writeback.close();
    try {
      List<ImageFile> files = new ArrayList<>(ImageSealer.files(staging, checksum(), pid));
      ImageSealer.requireNoOther(image, memory);
      files.addAll(memory);
      Manifest sealed = manifest.apply(files);
      write(sealed);
      staging.publish(target);
      published = true;
      return new ImageDirectory(target, sealed, true);
    } catch (IOException e) {
      String why =
          "the image of process %s could not be made durable at %s: %s"
              .formatted(pid, target, image.explain(e));
      Failure failure = Failure.of("dump", pid);
      throw ImageTarget.failed(
          failure, e, new ImageException(ImageException.Reason.UNWRITABLE, why, failure, e));
    }
  }

  private void write(Manifest manifest) throws IOException {
    Path image = staging.held().path();
    byte[] text = ManifestFile.write(manifest);
    byte[] sum = ManifestFile.sum(text);
    byte[] code = key == null ? null : ManifestFile.code(text, key);
    // The process is about to be killed because this image exists, so it must be possible to open
    // it.
    ManifestFile.read(target.resolve(ManifestFile.NAME), text, sum, code, key);
    DurableFiles.write(image.resolve(ManifestFile.NAME), text);
    DurableFiles.write(image.resolve(ManifestFile.SUM_NAME), sum);
    if (code != null) {
      DurableFiles.write(image.resolve(ManifestFile.CODE_NAME), code);
    }
  }

  /** Has a published image removed when this is closed, because its process lives on. */
  public void retractWhenClosed() {
    published = false;
  }

  /** Has CRIU's log removed when this is closed, because CRIU succeeded. */
  public void logUnwanted() {
    logUnwanted = true;
  }

  /**
   * Has CRIU's log removed when this is closed, unless an exception names it.
   *
   * @param thrown what the dump throws
   */
  public void endedWith(Throwable thrown) {
    ending = thrown;
  }

  /**
   * Removes an image that was not published, the log when it is not needed, and the journal entry.
   * Does nothing the second time: of several disk tasks that were given up each closes it when its
   * disk answers, and the numbers of its descriptors may be others' by then.
   */
  @Override
  public synchronized void close() {
    if (closed) {
      return;
    }
    closed = true;
    try {
      writeback.close();
      if (!published) {
        remove();
      }
      staging.close();
      closeLog();
    } finally {
      if (entry != null) {
        entry.close();
      }
    }
  }

  private void remove() {
    try {
      staging.remove();
    } catch (IOException e) {
      // Throwing here would hide the original error.
      LOG.warn("{} could not be removed: {}", staging.held().name(), staging.held().explain(e));
    }
  }

  private void closeLog() {
    if (logUnwanted) {
      log.delete();
    } else if (ending != null) {
      log.endedWith(ending);
    } else {
      log.deleteIfEmpty();
    }
  }
}
