package dev.gpuprocess.internal.image;

import dev.gpuprocess.image.ImageFile;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.image.MemoryFile;
import dev.gpuprocess.internal.linux.BlockFile;
import dev.gpuprocess.internal.linux.FileSystemStatus;
import dev.gpuprocess.internal.linux.IoExecutor;
import dev.gpuprocess.internal.linux.NamelessFile;
import dev.gpuprocess.internal.linux.PinnedDirectory;
import dev.gpuprocess.internal.pool.HostMemoryPool;
import dev.gpuprocess.internal.time.WorkLimit;
import java.io.IOException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * The memory files of an image in host memory, where they are written while they are verified: a
 * restore reads a disk once, and has the memory in huge pages. Those of an image that is in memory
 * itself are not copied. For one thread.
 */
final class MemoryCopies implements AutoCloseable {

  /** None. */
  static final MemoryCopies NONE = new MemoryCopies(Map.of(), "");

  private final Map<String, NamelessFile> files;
  private final String note;

  private MemoryCopies(Map<String, NamelessFile> files, String note) {
    this.files = files;
    this.note = note;
  }

  /** Makes room for all memory files of an image, or for none. */
  static MemoryCopies of(Manifest manifest, PinnedDirectory image, HostMemoryPool pool)
      throws IOException {
    List<MemoryFile> all = manifest.memoryFiles();
    if (all.isEmpty()
        || FileSystemStatus.of(image.path().resolve(MemoryFile.DIRECTORY)).isInMemory()) {
      return NONE;
    }
    try {
      List<NamelessFile> made = pool.files(all.stream().map(MemoryFile::bytes).toList());
      Map<String, NamelessFile> files = new HashMap<>();
      for (int i = 0; i < made.size(); i++) {
        files.put(all.get(i).file(), made.get(i));
      }
      return new MemoryCopies(files, "GPU memory read into host memory");
    } catch (IOException noRoom) {
      return new MemoryCopies(
          Map.of(), "GPU memory stays in the page cache: " + noRoom.getMessage());
    }
  }

  /** What was done, or why not, for an operator; empty where there is nothing to do. */
  String note() {
    return note;
  }

  /** A path of the copy of a file, as long as this is open; empty when there is none. */
  Optional<Path> path(MemoryFile file) {
    return Optional.ofNullable(files.get(file.file())).map(NamelessFile::path);
  }

  /** Whether a file is copied. */
  boolean has(ImageFile file) {
    return files.containsKey(file.path());
  }

  /**
   * Copies a file.
   *
   * @param file as the manifest has it
   * @return the file with the checksums of what was copied
   */
  ImageFile copy(PinnedDirectory image, ImageFile file, WorkLimit reading) throws IOException {
    NamelessFile copy = files.get(file.path());
    if (copy == null) {
      throw new IllegalArgumentException(file.path() + " is not copied");
    }
    Path path = image.path().resolve(file.path());
    try (BlockFile cached = BlockFile.openToRead(path, false);
        BlockFile direct = BlockFile.openToRead(path, true);
        BlockFile to = BlockFile.open(copy.path(), false)) {
      to.prepare(0, file.bytes());
      // A disk has its best number of readers, and memory more of them.
      IoExecutor threads = cached.isCached(0) ? IoExecutor.copying() : IoExecutor.streaming();
      return new SummedCopy(offset -> cached.isCached(offset) ? cached : direct, to, reading::check)
          .run(file.path(), file.bytes(), file.checksum(), threads);
    }
  }

  @Override
  public void close() {
    files.values().forEach(NamelessFile::close);
  }
}
