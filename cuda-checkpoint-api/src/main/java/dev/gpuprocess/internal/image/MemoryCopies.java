package dev.gpuprocess.internal.image;

import dev.gpuprocess.internal.linux.BlockFile;
import dev.gpuprocess.internal.linux.FileRange;
import dev.gpuprocess.internal.linux.FileSystemStatus;
import dev.gpuprocess.internal.linux.FileWriters;
import dev.gpuprocess.internal.linux.IoExecutor;
import dev.gpuprocess.internal.linux.NamelessFile;
import dev.gpuprocess.internal.linux.PinnedDirectory;
import dev.gpuprocess.internal.manifest.ChecksummedFile;
import dev.gpuprocess.internal.manifest.ManifestData;
import dev.gpuprocess.internal.manifest.MemoryFile;
import dev.gpuprocess.internal.pool.HostMemoryPool;
import dev.gpuprocess.internal.proc.FileId;
import dev.gpuprocess.internal.time.WorkLimit;
import java.io.IOException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Copies of the memory files of an image in host memory, made while the files are verified: a
 * restore reads the disk once, and has the memory in huge pages. Files that are in memory are not
 * copied, unless a process can still write to one of them: it could change what was verified. For
 * one thread.
 */
final class MemoryCopies implements AutoCloseable {

  /** No copies. */
  static final MemoryCopies NONE = new MemoryCopies(Map.of(), Map.of(), "");

  private final Map<String, NamelessFile> files;

  /** The zeros that the process does not map, by the path of the file. */
  private final Map<String, List<FileRange>> unmapped;

  private final String note;

  private MemoryCopies(
      Map<String, NamelessFile> files, Map<String, List<FileRange>> unmapped, String note) {
    this.files = files;
    this.unmapped = unmapped;
    this.note = note;
  }

  /** Takes memory for all memory files of an image, or for none. */
  static MemoryCopies of(ManifestData manifest, PinnedDirectory image, HostMemoryPool pool)
      throws IOException {
    List<MemoryFile> all = manifest.memoryFiles();
    if (all.isEmpty()) {
      return NONE;
    }
    boolean isInMemory =
        FileSystemStatus.of(image.path().resolve(MemoryFile.DIRECTORY)).isInMemory();
    boolean isWritable = isInMemory && !hasNoWriters(all, image);
    if (isInMemory && !isWritable) {
      return NONE;
    }
    try {
      Map<String, List<FileRange>> unmapped = new HashMap<>();
      all.forEach(each -> unmapped.put(each.file(), each.unmapped()));
      long zeros =
          unmapped.values().stream().flatMap(List::stream).mapToLong(FileRange::bytes).sum();
      List<NamelessFile> made = pool.files(all.stream().map(MemoryFile::bytes).toList(), zeros);
      Map<String, NamelessFile> files = new HashMap<>();
      for (int i = 0; i < made.size(); i++) {
        files.put(all.get(i).file(), made.get(i));
      }
      return new MemoryCopies(files, unmapped, "GPU memory read into host memory");
    } catch (IOException noRoom) {
      if (isWritable) {
        throw new IOException(
            "a process can still write to its GPU memory, which cannot be copied: "
                + noRoom.getMessage(),
            noRoom);
      }
      return new MemoryCopies(
          Map.of(), Map.of(), "GPU memory stays in the page cache: " + noRoom.getMessage());
    }
  }

  private static boolean hasNoWriters(List<MemoryFile> files, PinnedDirectory image)
      throws IOException {
    for (MemoryFile each : files) {
      if (!FileWriters.areNone(image.path().resolve(each.file()))) {
        return false;
      }
    }
    return true;
  }

  /** Returns the note of the step: the copies, or why there are none. May be empty. */
  String note() {
    return note;
  }

  /** Returns a path of the copy of a file, valid while this is open; empty for no copy. */
  Optional<Path> path(MemoryFile file) {
    return Optional.ofNullable(files.get(file.file())).map(NamelessFile::path);
  }

  /** Returns the copies. */
  List<FileId> files() {
    return files.values().stream().map(NamelessFile::id).toList();
  }

  /** Returns whether a file is copied. */
  boolean has(ChecksummedFile file) {
    return files.containsKey(file.path());
  }

  /**
   * Copies a file.
   *
   * @return the file with the checksums of the copy
   */
  ChecksummedFile copy(PinnedDirectory image, ChecksummedFile file, WorkLimit reading)
      throws IOException {
    NamelessFile copy = files.get(file.path());
    if (copy == null) {
      throw new IllegalArgumentException(file.path() + " is not copied");
    }
    Path path = image.path().resolve(file.path());
    try (BlockFile cached = BlockFile.openToRead(path, false);
        BlockFile direct = BlockFile.openToRead(path, true);
        BlockFile to = BlockFile.open(copy.path(), false)) {
      to.prepare(0, file.bytes());
      to.leaveUnmapped(unmapped.getOrDefault(file.path(), List.of()));
      // Reading from memory scales with more threads than reading from a disk.
      IoExecutor threads = cached.isCached(0) ? IoExecutor.copying() : IoExecutor.streaming();
      return FileChecksums.copy(
          file.path(),
          file.bytes(),
          file.checksum(),
          offset -> cached.isCached(offset) ? cached : direct,
          to,
          threads,
          reading);
    }
  }

  @Override
  public void close() {
    files.values().forEach(NamelessFile::close);
  }
}
