package dev.gpuprocess.internal.handover;

import dev.gpuprocess.image.ImageFile;
import dev.gpuprocess.image.MemoryFile;
import dev.gpuprocess.internal.os.AlignedBuffer;
import dev.gpuprocess.internal.os.BlockFile;
import dev.gpuprocess.internal.os.DirectoryMaker;
import dev.gpuprocess.internal.os.DirectoryTrust;
import dev.gpuprocess.internal.os.DurableFiles;
import dev.gpuprocess.internal.os.Ownership;
import dev.gpuprocess.internal.store.IoExecutor;
import dev.gpuprocess.internal.text.NativePath;
import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A file in memory (tmpfs) that takes the memory of one process for the time of its pause; it goes
 * to the disk from there. It has a name only until CRIU has seen it: after that its memory is freed
 * when nobody has it open or mapped any more, whoever dies. The directory around it is of mode
 * 0700, and named after its maker, so that leftovers of dead makers are recognized. For one thread.
 */
public final class Spool implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private static final String PURPOSE = "spool";
  private static final String PREFIX = "gpuprocess-" + PURPOSE + "-";

  private final Path directory;
  private final int number;
  private @Nullable BlockFile open;

  private Spool(Path directory, int number) {
    this.directory = directory;
    this.number = number;
  }

  /**
   * Makes an empty one.
   *
   * @param place a directory in which nobody else can replace what we make
   * @param number of the file that will be in it, as of the {@link MemoryHandOver}
   * @throws IOException when it cannot be made, or others could replace it
   */
  public static Spool make(Path place, int number) throws IOException {
    Path made = place.toRealPath().resolve(DirectoryMaker.temporaryName(PURPOSE));
    String file = MemoryHandOver.file(number);
    if (!MemoryFile.isPath(NativePath.text(made.resolve(file)), file)) {
      throw new FileSystemException(place.toString(), null, "has a name that is not text in UTF-8");
    }
    Path unused = DirectoryTrust.requirePlaceFor(made);
    DurableFiles.createDirectory(made);
    Spool spool = new Spool(made, number);
    try {
      DurableFiles.createDirectory(spool.memoryDirectory());
      return spool;
    } catch (IOException e) {
      spool.close();
      throw e;
    }
  }

  /** The directory in which a hand-over makes its file. */
  public Path memoryDirectory() {
    return directory.resolve(MemoryFile.DIRECTORY);
  }

  /**
   * Keeps the file open, whatever becomes of its name. To be called once it is complete.
   *
   * @throws IOException when it cannot be opened
   */
  public void keep() throws IOException {
    open = BlockFile.open(directory.resolve(MemoryHandOver.file(number)), false);
  }

  /** Takes its name from the file, once CRIU has seen it; {@link #close} tries again. */
  public void hide() {
    try {
      DurableFiles.delete(directory);
    } catch (IOException e) {
      LOG.debug("{} keeps its name until it is closed", directory, e);
    }
  }

  /**
   * Copies the file into an image, past the page cache where that is possible, and syncs the copy.
   * To be called after {@link #keep}.
   *
   * @param memory the directory of memory files of the image
   * @param bytes the size of the file
   * @throws IOException when the copy cannot be written
   */
  public void copyTo(Path memory, long bytes, CopyLimit limit) throws IOException {
    BlockFile from = open;
    if (from == null) {
      throw new IllegalStateException("the file of " + directory + " is not open");
    }
    try (BlockFile to = BlockFile.create(memory.resolve(MemoryHandOver.name(number)), true);
        IoExecutor threads = IoExecutor.streaming()) {
      to.reserve(bytes);
      List<CompletableFuture<Boolean>> chunks = new ArrayList<>();
      for (long at = 0; at < bytes; at += ImageFile.CHUNK_BYTES) {
        long begin = at;
        long end = Math.min(bytes, at + ImageFile.CHUNK_BYTES);
        chunks.add(threads.start(() -> copy(from, to, begin, end, limit)));
      }
      for (CompletableFuture<Boolean> chunk : chunks) {
        boolean unused = IoExecutor.await(chunk);
      }
      to.sync();
    }
  }

  private static boolean copy(BlockFile from, BlockFile to, long begin, long end, CopyLimit limit)
      throws IOException {
    AlignedBuffer buffer = CopyBuffers.take();
    try {
      for (long at = begin; at < end; at += buffer.size()) {
        limit.requireTime();
        int count = (int) Math.min(buffer.size(), end - at);
        from.read(buffer, count, at);
        to.write(buffer, count, at);
      }
      return true;
    } finally {
      CopyBuffers.give(buffer);
    }
  }

  /** Removes it. A process that maps it keeps the memory until it unmaps it. */
  @Override
  public void close() {
    if (open != null) {
      open.close();
      open = null;
    }
    try {
      DurableFiles.delete(directory);
    } catch (IOException e) {
      DirectoryMaker.giveUp(directory);
      LOG.warn(
          "{} stays, and takes memory until the next snapshot or a recovery removes it: {}",
          directory,
          e.toString());
    }
  }

  /**
   * Removes what dead makers left, and what this JVM could not remove before. A process that maps
   * such a file keeps its memory.
   *
   * @param place where they were made
   */
  public static void removeAbandoned(Path place) {
    try {
      for (Path entry : DurableFiles.list(place)) {
        if (isAbandoned(entry)) {
          DurableFiles.delete(entry);
          DirectoryMaker.removed(entry);
        }
      }
    } catch (NoSuchFileException none) {
      LOG.debug("there is no {}", place);
    } catch (IOException e) {
      LOG.warn("spools that are no longer used stay in {}: {}", place, e.toString());
    }
  }

  private static boolean isAbandoned(Path entry) throws IOException {
    String name = String.valueOf(entry.getFileName());
    Optional<DirectoryMaker> maker =
        name.startsWith(PREFIX) ? DirectoryMaker.ofTemporary(name) : Optional.empty();
    try {
      return maker.isPresent()
          && maker.get().hasAbandoned(entry)
          && Files.isDirectory(entry, LinkOption.NOFOLLOW_LINKS)
          && Ownership.of(entry).isOursToRemove();
    } catch (NoSuchFileException removedMeanwhile) {
      return false;
    }
  }
}
