package dev.gpuprocess.internal.image;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.internal.linux.AlignedBuffer;
import dev.gpuprocess.internal.linux.Descriptors;
import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.linux.FileRange;
import dev.gpuprocess.internal.linux.FileSystemStatus;
import dev.gpuprocess.internal.linux.IoExecutor;
import dev.gpuprocess.internal.linux.PinnedDirectory;
import dev.gpuprocess.internal.linux.UnreadableImage;
import dev.gpuprocess.internal.manifest.ChecksummedFile;
import dev.gpuprocess.internal.manifest.ManifestData;
import dev.gpuprocess.internal.manifest.MemoryFile;
import dev.gpuprocess.internal.text.Bytes;
import dev.gpuprocess.internal.time.WorkLimit;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A copy of an image under way. Every chunk is compared with the manifest while it is copied. The
 * copy gets its name in one atomic step, when it is complete and on disk.
 *
 * <p>A partial copy has the manifest from the beginning, so that the next copy of the same image in
 * the same directory recognizes and continues it: chunks that match the manifest are not copied
 * again. A copy that failed stays for that, unless the disk is full or the copy was cancelled. For
 * one thread.
 */
public final class ImageCopy implements AutoCloseable {

  private static final String OPERATION = "copy";

  private static final Logger LOG = LoggerFactory.getLogger(ImageCopy.class);

  private final ManifestData manifest;
  private final Failure failure;
  private final Path target;
  private final WorkLimit reading;
  private final VerifiedImage source;
  private final StagingDirectory staging;
  private final byte @Nullable [] code;
  private final IoExecutor threads = IoExecutor.copying();
  private boolean published;
  private boolean unwanted;

  private ImageCopy(
      ImageDirectory image,
      VerifiedImage source,
      StagingDirectory staging,
      Path target,
      byte @Nullable [] code,
      WorkLimit reading) {
    this.manifest = image.manifest();
    this.failure = failure(manifest);
    this.source = source;
    this.staging = staging;
    this.target = target;
    this.code = code;
    this.reading = reading;
  }

  /**
   * The result of a copy.
   *
   * @param image the copy
   * @param copied how many bytes were read from the original
   * @param found how many bytes were there already
   */
  public record Result(ImageDirectory image, long copied, long found) {

    /** Returns the note of the step. */
    public String note() {
      return found == 0 ? "" : Bytes.text(found) + " were there already";
    }
  }

  /**
   * Copies an image.
   *
   * @param image the original, opened by {@link ImageDirectory#openToCopy} or {@link
   *     ImageDirectory#open}
   * @param directory the place of the copy: a path that does not exist, or an empty directory.
   *     Missing directories above it are created
   * @param key the key that the image was made with; null for none
   * @return the copy
   * @throws dev.gpuprocess.error.ImageException with reason CORRUPT when a file is missing,
   *     truncated, altered, or not in the manifest; with reason NOT_TRUSTED when there is no key
   *     and another user could have written it; with reason MISSING when the image is gone; with
   *     reason DIRECTORY when the directory cannot be used
   * @throws ImageException with reason DISK_FULL when the file system has too little space
   * @throws OperationCancelledException when the copy was cancelled
   */
  public static Result make(
      ImageDirectory image, Path directory, @Nullable ImageKey key, WorkLimit reading) {
    try (ImageCopy copy = begin(image, directory, key, reading)) {
      return copy.run();
    }
  }

  /** Checks both places, and makes the partial copy or continues one. */
  static ImageCopy begin(
      ImageDirectory image, Path directory, @Nullable ImageKey key, WorkLimit reading) {
    reading.check();
    Failure failure = failure(image.manifest());
    VerifiedImage source = image.opened(reading, key != null);
    try {
      byte[] text = ManifestFile.write(image.manifest());
      byte[] code =
          key == null ? foreignCode(source.directory(), failure) : ManifestFile.code(text, key);
      ImageTarget target = ImageTarget.open(directory, 0, failure);
      try {
        StagingDirectory staging = staging(target, image.manifest(), text);
        return new ImageCopy(image, source, staging, target.path(), code, reading);
      } catch (RuntimeException | Error e) {
        target.parent().close();
        throw e;
      }
    } catch (RuntimeException | Error e) {
      source.close();
      throw e;
    }
  }

  private static Failure failure(ManifestData manifest) {
    return Failure.of(OPERATION, manifest.pid());
  }

  /** Reads the signature of an image whose key this JVM does not have; null for none. */
  private static byte @Nullable [] foreignCode(PinnedDirectory image, Failure failure) {
    try {
      return Files.exists(image.path().resolve(ManifestFile.CODE_NAME), LinkOption.NOFOLLOW_LINKS)
          ? ImageDirectory.small(image, ManifestFile.CODE_NAME, false)
          : null;
    } catch (IOException e) {
      throw unreadable(image, e, failure);
    }
  }

  private static StagingDirectory staging(ImageTarget target, ManifestData manifest, byte[] text) {
    PinnedDirectory parent = target.parent();
    ProcessIdentity process = new ProcessIdentity(manifest.pid(), manifest.startTicks());
    try {
      StagingDirectory left = abandoned(parent, process, text);
      AbandonedImage.removeIn(parent.name());
      if (left != null) {
        return left;
      }
      ImageTarget.requireSpace(parent, manifest.bytes() - zeros(manifest), failure(manifest));
      StagingDirectory made = StagingDirectory.make(parent, process);
      try {
        DurableFiles.write(made.held().path().resolve(ManifestFile.NAME), text);
        return made;
      } catch (IOException e) {
        try (made) {
          made.remove();
        } catch (IOException notRemoved) {
          e.addSuppressed(notRemoved);
        }
        throw e;
      }
    } catch (IOException e) {
      throw ImageTarget.unwritable(parent, e, failure(manifest));
    }
  }

  /** Returns the size of the known zeros. */
  private static long zeros(ManifestData manifest) {
    return manifest.memoryFiles().stream()
        .flatMap(each -> each.unmapped().stream())
        .mapToLong(FileRange::bytes)
        .sum();
  }

  /** Takes over a partial copy of this image whose maker has ended; null if none exists. */
  private static @Nullable StagingDirectory abandoned(
      PinnedDirectory parent, ProcessIdentity process, byte[] text) throws IOException {
    for (AbandonedImage each : AbandonedImage.in(parent.name())) {
      if (!each.process().equals(Optional.of(process)) || !isCopyOf(each.path(), text)) {
        continue;
      }
      Optional<StagingDirectory> adopted = StagingDirectory.adopt(parent, each);
      if (adopted.isPresent()) {
        StagingDirectory ours = adopted.get();
        if (isCopyOf(ours.held().path(), text)) {
          return ours;
        }
        try (ours) {
          ours.abandon();
        }
        throw StagingDirectory.replaced(each.path());
      }
    }
    return null;
  }

  private static boolean isCopyOf(Path partial, byte[] text) throws IOException {
    Path manifest = partial.resolve(ManifestFile.NAME);
    try {
      return Files.isRegularFile(manifest, LinkOption.NOFOLLOW_LINKS)
          && Arrays.equals(text, DurableFiles.read(manifest, ManifestFile.MAX_BYTES));
    } catch (FileNotFoundException taken) {
      return false; // another copy took it over
    }
  }

  /** Copies all chunks that are missing. */
  Result run() {
    try {
      return copied();
    } catch (ImageException | OperationCancelledException e) {
      if (e.reason() == ImageException.Reason.DISK_FULL
          || e instanceof OperationCancelledException) {
        unwanted = true;
      }
      throw e;
    }
  }

  private Result copied() {
    try {
      removeOthers();
      List<CompletableFuture<Long>> chunks = new ArrayList<>();
      for (ChecksummedFile file : manifest.files()) {
        chunks.addAll(start(file));
      }
      long copied = IoExecutor.awaitAll(chunks).stream().mapToLong(Long::longValue).sum();
      return new Result(publish(), copied, manifest.bytes() - copied);
    } catch (IOException e) {
      throw unwritten(e);
    }
  }

  /** Copies one file. */
  void copy(ChecksummedFile file) throws IOException {
    List<Long> unused = IoExecutor.awaitAll(start(file));
  }

  /** Starts to copy the missing chunks of a file; each returns the number of copied bytes. */
  private List<CompletableFuture<Long>> start(ChecksummedFile file) throws IOException {
    Path from = source.directory().path().resolve(file.path());
    Path to = staging.held().path().resolve(file.path());
    long there = prepare(to, file.bytes());
    List<FileRange> holes = holes(file, to);
    List<CompletableFuture<Long>> chunks = new ArrayList<>();
    for (int i = 0; i < file.chunks().size(); i++) {
      Chunk chunk = new Chunk(file, i);
      chunks.add(threads.start(() -> copy(chunk, from, to, there, holes)));
    }
    return chunks;
  }

  /**
   * Returns the parts of a memory file whose zeros may be holes: all of it on a disk, and in memory
   * what the process does not map, since it needs memory to read a hole through a mapping.
   */
  private List<FileRange> holes(ChecksummedFile file, Path to) throws IOException {
    Optional<MemoryFile> memory =
        manifest.memoryFiles().stream().filter(each -> each.file().equals(file.path())).findFirst();
    if (memory.isEmpty()) {
      return List.of();
    }
    return FileSystemStatus.of(to).isInMemory()
        ? memory.get().unmapped()
        : List.of(new FileRange(0, file.bytes()));
  }

  private record Chunk(ChecksummedFile file, int number) {

    long from() {
      return number * ChecksummedFile.CHUNK_BYTES;
    }

    long to() {
      return Math.min(file.bytes(), from() + ChecksummedFile.CHUNK_BYTES);
    }

    boolean has(String sum) {
      return file.chunks().get(number).equals(sum);
    }
  }

  /** Creates a file, or truncates one that is too long; returns its length before. */
  private static long prepare(Path to, long bytes) throws IOException {
    if (!Files.exists(to, LinkOption.NOFOLLOW_LINKS)) {
      Files.createFile(to, PosixFilePermissions.asFileAttribute(DurableFiles.PRIVATE_FILE));
      Files.setPosixFilePermissions(to, DurableFiles.PRIVATE_FILE);
      return 0;
    }
    try (RandomAccessFile file = Descriptors.readAndWrite(to)) {
      long length = file.length();
      if (length > bytes) {
        file.setLength(bytes);
      }
      return length;
    }
  }

  private long copy(Chunk chunk, Path from, Path to, long there, List<FileRange> holes)
      throws IOException {
    ChecksummedFile file = chunk.file();
    if (there >= chunk.to()
        && chunk.has(ChunkChecksum.of(file.checksum(), to, chunk.from(), chunk.to(), reading))) {
      return 0;
    }
    ChunkChecksum sum = ChunkChecksum.of(file.checksum());
    try (RandomAccessFile out = Descriptors.readAndWrite(to)) {
      out.seek(chunk.from());
      read(
          chunk,
          from,
          part -> {
            sum.add(part.duplicate());
            write(out, part, there, holes);
          });
    }
    if (!chunk.has(sum.text())) {
      throw Verification.altered(source.directory(), file);
    }
    return chunk.to() - chunk.from();
  }

  private void read(Chunk chunk, Path from, Consumer<ByteBuffer> parts) {
    try {
      ChunkChecksum.read(from, chunk.from(), chunk.to(), parts, reading);
    } catch (UncheckedIOException written) {
      throw unwritten(Objects.requireNonNull(written.getCause()));
    } catch (IOException e) {
      throw unreadable(source.directory(), e, failure);
    }
  }

  /**
   * Writes a part at the position of a file, or leaves it out if it may be a hole.
   *
   * @param there the length of the file before the copy; behind it the file has only zeros
   */
  private static void write(
      RandomAccessFile out, ByteBuffer part, long there, List<FileRange> holes) {
    try {
      long from = out.getFilePointer();
      long to = from + part.remaining();
      if (from >= there
          && holes.stream().anyMatch(each -> each.contains(from, to))
          && AlignedBuffer.isZero(part)) {
        out.seek(to);
        return;
      }
      if (part.hasArray()) {
        out.write(part.array(), part.arrayOffset() + part.position(), part.remaining());
        return;
      }
      FileChannel channel = out.getChannel();
      while (part.hasRemaining()) {
        int unused = channel.write(part);
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Removes foreign files from a continued copy, and makes its directories. */
  private void removeOthers() throws IOException {
    Path copy = staging.held().path();
    Files.deleteIfExists(copy.resolve(ManifestFile.SUM_NAME));
    Files.deleteIfExists(copy.resolve(ManifestFile.CODE_NAME));
    Set<String> names = new HashSet<>();
    manifest.files().forEach(file -> names.add(file.path()));
    for (String directory : List.of(ImageDirectory.IMAGES, MemoryFile.DIRECTORY)) {
      Path there = copy.resolve(directory);
      if (names.stream().anyMatch(name -> name.startsWith(directory + "/"))
          && !Files.exists(there, LinkOption.NOFOLLOW_LINKS)) {
        DurableFiles.createDirectory(there);
      }
      if (Files.exists(there, LinkOption.NOFOLLOW_LINKS)) {
        for (Path file : DurableFiles.list(there)) {
          if (!names.contains(copy.relativize(file).toString())) {
            Files.delete(file);
          }
        }
      }
    }
  }

  /** Syncs the copy, checks that its memory is complete, and gives it its name. */
  private ImageDirectory publish() throws IOException {
    PinnedDirectory copy = staging.held();
    for (MemoryFile each : manifest.memoryFiles()) {
      lengthen(copy.path().resolve(each.file()), each.bytes());
    }
    try (IoExecutor disk = IoExecutor.disk()) {
      List<CompletableFuture<Path>> syncs = new ArrayList<>();
      for (ChecksummedFile file : manifest.files()) {
        syncs.add(disk.sync(copy.path().resolve(file.path())));
      }
      // The one of a continued copy may not be on the disk.
      syncs.add(disk.sync(copy.path().resolve(ManifestFile.NAME)));
      List<Path> unused = IoExecutor.awaitAll(syncs);
    }
    PageMaps.requireComplete(copy, staging.images(), OPERATION, manifest.pid());
    byte[] text = ManifestFile.write(manifest);
    DurableFiles.write(copy.path().resolve(ManifestFile.SUM_NAME), ManifestFile.sum(text));
    if (code != null) {
      DurableFiles.write(copy.path().resolve(ManifestFile.CODE_NAME), code);
    }
    reading.check();
    try {
      staging.publish(target);
    } catch (IOException e) {
      unwanted = staging.hasItsName();
      if (!unwanted) {
        requireFree(e);
      }
      throw e;
    }
    published = true;
    return new ImageDirectory(target, manifest);
  }

  /** A file that ends with a hole is shorter than it should be. */
  private static void lengthen(Path file, long bytes) throws IOException {
    try (RandomAccessFile out = Descriptors.readAndWrite(file)) {
      if (out.length() < bytes) {
        out.setLength(bytes);
      }
    }
  }

  /** Refuses a path that another process has taken. */
  private void requireFree(IOException thrown) throws IOException {
    try (PinnedDirectory parent =
        PinnedDirectory.open(Objects.requireNonNull(target.getParent()))) {
      ImageTarget.requireUnused(parent, target, failure);
    } catch (ImageException e) {
      unwanted = true;
      e.addSuppressed(thrown);
      throw e;
    }
  }

  private static ImageException unreadable(PinnedDirectory image, IOException e, Failure failure) {
    return UnreadableImage.of("the image cannot be read: " + image.explain(e), failure, e);
  }

  private ImageException unwritten(IOException e) {
    String why =
        "the image of process %s could not be copied to %s: %s"
            .formatted(manifest.pid(), target, staging.held().explain(e));
    return ImageTarget.failed(failure, ImageException.Reason.UNWRITABLE, why, e);
  }

  /** Removes an unwanted copy; a failed copy stays for the next attempt. */
  @Override
  public void close() {
    threads.close();
    try {
      if (unwanted) {
        staging.remove();
      } else if (!published) {
        staging.abandon();
      }
    } catch (IOException e) {
      // Throwing here would hide the original error.
      LOG.warn("{} stays: {}", staging.held().name(), staging.held().explain(e));
    } finally {
      staging.close();
      source.close();
    }
  }
}
