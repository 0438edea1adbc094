package dev.gpuprocess.internal.store;

import dev.gpuprocess.image.ImageFile;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.image.MemoryFile;
import dev.gpuprocess.internal.memory.HostMemoryPool;
import dev.gpuprocess.internal.os.AlignedBuffer;
import dev.gpuprocess.internal.os.BlockFile;
import dev.gpuprocess.internal.os.CopyBuffers;
import dev.gpuprocess.internal.os.FileSystemStatus;
import dev.gpuprocess.internal.os.IoExecutor;
import dev.gpuprocess.internal.os.NamelessFile;
import dev.gpuprocess.internal.os.PinnedDirectory;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

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
    return Optional.ofNullable(files.get(file.file()))
        .map(copy -> Path.of("/proc/self/fd/" + copy.descriptor()));
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
  ImageFile copy(PinnedDirectory image, ImageFile file, ReadLimit reading) throws IOException {
    NamelessFile copy = files.get(file.path());
    if (copy == null) {
      throw new IllegalArgumentException(file.path() + " is not copied");
    }
    Path path = image.path().resolve(file.path());
    try (BlockFile cached = BlockFile.openToRead(path, false);
        BlockFile direct = BlockFile.openToRead(path, true);
        BlockFile to = BlockFile.open(Path.of("/proc/self/fd/" + copy.descriptor()), false)) {
      to.prepare(0, file.bytes());
      return copy(file, cached, direct, to, reading);
    }
  }

  /** A disk has its best number of readers, and memory more of them. */
  private static ImageFile copy(
      ImageFile file, BlockFile cached, BlockFile direct, BlockFile to, ReadLimit reading)
      throws IOException {
    try (IoExecutor threads = cached.isCached(0) ? IoExecutor.copying() : IoExecutor.streaming()) {
      List<CompletableFuture<String>> chunks = new ArrayList<>();
      for (long at = 0; at < file.bytes(); at += ImageFile.CHUNK_BYTES) {
        long from = at;
        long end = Math.min(file.bytes(), at + ImageFile.CHUNK_BYTES);
        chunks.add(
            threads.start(
                () ->
                    copied(file, cached.isCached(from) ? cached : direct, to, from, end, reading)));
      }
      List<String> sums = new ArrayList<>();
      for (CompletableFuture<String> chunk : chunks) {
        sums.add(IoExecutor.await(chunk));
      }
      return new ImageFile(file.path(), file.bytes(), file.checksum(), sums);
    }
  }

  private static String copied(
      ImageFile file, BlockFile from, BlockFile to, long begin, long end, ReadLimit reading)
      throws IOException {
    RunningChecksum sum = RunningChecksum.of(file.checksum());
    AlignedBuffer buffer = CopyBuffers.take();
    try {
      for (long at = begin; at < end; at += buffer.size()) {
        reading.requireTime();
        int count = (int) Math.min(buffer.size(), end - at);
        from.read(buffer, count, at);
        sum.add(buffer.first(count));
        to.write(buffer, count, at);
      }
    } finally {
      CopyBuffers.give(buffer);
    }
    return sum.text();
  }

  @Override
  public void close() {
    files.values().forEach(NamelessFile::close);
  }
}
