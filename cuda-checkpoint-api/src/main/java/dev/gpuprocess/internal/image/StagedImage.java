package dev.gpuprocess.internal.image;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.linux.FileSystemStatus;
import dev.gpuprocess.internal.linux.IoExecutor;
import dev.gpuprocess.internal.linux.Ownership;
import dev.gpuprocess.internal.linux.PinnedDirectory;
import dev.gpuprocess.internal.manifest.Checksum;
import dev.gpuprocess.internal.manifest.ChecksummedFile;
import dev.gpuprocess.internal.manifest.ManifestData;
import dev.gpuprocess.internal.manifest.MemoryFile;
import dev.gpuprocess.internal.state.ImageEntry;
import dev.gpuprocess.internal.time.IoAction;
import dev.gpuprocess.internal.time.WorkLimit;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * An image under way, in a directory {@code .gpuprocess-....partial} beside its final place. The
 * directory gets the final name in one atomic step when the image is complete and on disk. Closing
 * removes an image that was not published. For one thread at a time.
 */
public final class StagedImage implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger(StagedImage.class);

  private final StagingDirectory staging;
  private final Path target;
  private final int pid;
  private final @Nullable ImageKey key;
  private final EarlyWriteback writeback;
  private final LogDirectory log;
  private final List<ChecksummedFile> memory = new ArrayList<>();
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
   * @param directory the place of the image: a path that does not exist, or an empty directory.
   *     Missing directories above it are created
   * @param process the process to dump, named in exceptions and by {@link AbandonedImage#in}
   * @param expectedBytes the expected size of the image
   * @param key the key to sign the image with; null for none
   * @return the image, with empty directories
   * @throws ImageException with reason DIRECTORY when the directory cannot be used
   * @throws ImageException with reason DISK_FULL when the file system has too little space
   */
  public static StagedImage create(
      Path directory, ProcessIdentity process, long expectedBytes, @Nullable ImageKey key) {
    return create(directory, process, expectedBytes, key, LogDirectory.planned("dump"));
  }

  /**
   * Starts an image whose log directory is already chosen.
   *
   * @param directory the place of the image: a path that does not exist, or an empty directory.
   *     Missing directories above it are created
   * @param process the process to dump, named in exceptions and by {@link AbandonedImage#in}
   * @param expectedBytes the expected size of the image
   * @param key the key to sign the image with; null for none
   * @param log the directory that {@link #work} creates
   * @return the image, with empty directories
   * @throws ImageException with reason DIRECTORY when the directory cannot be used
   * @throws ImageException with reason DISK_FULL when the file system has too little space
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
      AbandonedImage.removeIn(target.parent().name());
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
   * Removes a journal entry when this is closed.
   *
   * @param written the entry that names this image
   */
  public void removesWhenClosed(ImageEntry written) {
    entry = written;
  }

  /**
   * Returns the directory for CRIU's image files, which exists until this is closed. The path is a
   * descriptor of this process ({@code /proc/self/fd}), so another process needs a descriptor of
   * the directory.
   */
  public Path images() {
    return staging.images();
  }

  /** Returns whether the image is on a file system in memory. */
  public boolean isInMemory() {
    try {
      return FileSystemStatus.of(images()).isInMemory();
    } catch (IOException e) {
      throw incomplete(e);
    }
  }

  /**
   * Creates and returns the temporary directory for CRIU's log and statistics. It stays when this
   * is closed, because exceptions name the log, except after {@link #logUnwanted}.
   *
   * @throws ImageException with reason DIRECTORY when it cannot be created
   */
  public Path work() {
    if (!Files.isDirectory(log.path())) {
      log.make();
    }
    return log.path();
  }

  /**
   * Writes a file beside CRIU's files; the manifest lists it too.
   *
   * @throws ImageException with reason DISK_FULL when the file system is full
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
   * Has files written beside CRIU's files; the manifest lists them too.
   *
   * @throws ImageException with reason DISK_FULL when the file system is full
   * @throws ImageException when they cannot be written
   */
  public void addAll(IoAction writing) {
    try {
      writing.run();
    } catch (IOException e) {
      throw incomplete(e);
    }
  }

  /**
   * Creates the directory for memory files, unless it exists.
   *
   * @return a path like that of {@link #images}
   * @throws ImageException with reason DISK_FULL when the file system is full
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
   * @param files added files
   * @throws ImageException when they cannot be removed
   */
  public void removeMemory(List<ChecksummedFile> files) {
    Path directory = staging.held().path().resolve(MemoryFile.DIRECTORY);
    try {
      for (ChecksummedFile each : files) {
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

  /** Adds a complete memory file with its checksums; the manifest lists it too. */
  public void addMemory(ChecksummedFile file) {
    memory.add(file);
  }

  /** Returns the kind of checksums of this image. */
  public Checksum checksum() {
    return key == null ? Checksum.CRC32C : Checksum.SHA256;
  }

  /**
   * Returns the exception for a failure to write a file of the image.
   *
   * @return one with reason DISK_FULL when the disk is full
   */
  public ImageException incomplete(IOException e) {
    return failed("completed", e);
  }

  private ImageException failed(String done, IOException e) {
    String why =
        "the image of process %s could not be %s at %s: %s"
            .formatted(pid, done, target, staging.held().explain(e));
    return ImageTarget.failed(Failure.of("dump", pid), ImageException.Reason.UNWRITABLE, why, e);
  }

  /**
   * Checks that the memory is complete, computes the checksum of every image file and syncs it,
   * writes the manifest, and gives the image its name. When this returns, the image survives a
   * power failure. Not bounded in time: a disk that hangs blocks this method and {@link #close}.
   *
   * @param manifest makes the manifest of the files
   * @throws ImageException with reason DISK_FULL when the file system is full
   * @throws ImageException when anything else is wrong; closing this then leaves nothing at the
   *     image's path
   */
  public ImageDirectory publish(Function<List<ChecksummedFile>, ManifestData> manifest) {
    PinnedDirectory image = staging.held();
    writeback.close();
    try {
      List<ChecksummedFile> files = new ArrayList<>(summed(image));
      requireNoOther(image);
      files.addAll(memory);
      ManifestData sealed = manifest.apply(files);
      write(sealed);
      staging.publish(target);
      published = true;
      return new ImageDirectory(target, sealed, true);
    } catch (IOException e) {
      throw failed("made durable", e);
    }
  }

  /**
   * Makes CRIU's files private, checks that the memory is complete, and computes checksums while
   * the files are synced.
   */
  private List<ChecksummedFile> summed(PinnedDirectory image) throws IOException {
    List<Path> files = DurableFiles.list(staging.images());
    for (Path file : files) {
      makePrivate(image, file);
    }
    PageMaps.requireComplete(image, staging.images(), "dump", pid);
    try (IoExecutor disk = IoExecutor.disk();
        IoExecutor cores = IoExecutor.cores()) {
      List<CompletableFuture<Path>> syncs = new ArrayList<>();
      List<FileChecksums> sums = new ArrayList<>();
      WorkLimit unlimited = WorkLimit.readingAtLength("dump", pid, () -> false);
      for (Path file : files) {
        syncs.add(disk.sync(file));
        String name = image.path().relativize(file).toString();
        sums.add(FileChecksums.start(cores, image, name, checksum(), unlimited));
      }
      List<ChecksummedFile> summed = new ArrayList<>();
      for (FileChecksums file : sums) {
        summed.add(file.await());
      }
      List<Path> unused = IoExecutor.awaitAll(syncs);
      return summed;
    } catch (IllegalArgumentException e) {
      throw new IOException("CRIU wrote a file that an image cannot hold: " + e.getMessage(), e);
    }
  }

  /**
   * Refuses memory files that the manifest will not list: a restore would refuse the image when the
   * process is gone.
   */
  private void requireNoOther(PinnedDirectory image) throws IOException {
    Path directory = image.path().resolve(MemoryFile.DIRECTORY);
    if (!Files.exists(directory, LinkOption.NOFOLLOW_LINKS)) {
      return;
    }
    for (Path file : DurableFiles.list(directory)) {
      String name = image.path().relativize(file).toString();
      if (memory.stream().noneMatch(each -> each.path().equals(name))) {
        throw new FileSystemException(
            image.shown(file).toString(), null, "does not belong to the image");
      }
    }
  }

  private static void makePrivate(PinnedDirectory image, Path file) throws IOException {
    if (!Files.isRegularFile(file, LinkOption.NOFOLLOW_LINKS)) {
      throw new FileSystemException(
          image.shown(file).toString(), null, "is not a regular file, and CRIU writes no others");
    }
    // Files that a root CRIU wrote for another user stay root's. Only this user can enter their
    // directory.
    if (!Ownership.of(file).isRootsAndNotOurs()) {
      Files.setPosixFilePermissions(file, DurableFiles.PRIVATE_FILE);
    }
  }

  private void write(ManifestData manifest) throws IOException {
    Path image = staging.held().path();
    byte[] text = ManifestFile.write(manifest);
    byte[] sum = ManifestFile.sum(text);
    byte[] code = key == null ? null : ManifestFile.code(text, key);
    // The process is killed when this image exists, so the image must be readable.
    ManifestFile.read(target.resolve(ManifestFile.NAME), text, sum, code, key);
    DurableFiles.write(image.resolve(ManifestFile.NAME), text);
    DurableFiles.write(image.resolve(ManifestFile.SUM_NAME), sum);
    if (code != null) {
      DurableFiles.write(image.resolve(ManifestFile.CODE_NAME), code);
    }
  }

  /** Removes a published image when this is closed, because its process is still alive. */
  public void retractWhenClosed() {
    published = false;
  }

  /** Removes CRIU's log when this is closed, because CRIU succeeded. */
  public void logUnwanted() {
    logUnwanted = true;
  }

  /** Removes CRIU's log when this is closed, unless the exception of the dump names it. */
  public void endedWith(Throwable thrown) {
    ending = thrown;
  }

  /**
   * Removes an image that was not published, the log when it is not needed, and the journal entry.
   * A second call does nothing: each abandoned disk task closes the image when the disk answers,
   * and its descriptor numbers may be in use for other files then.
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
