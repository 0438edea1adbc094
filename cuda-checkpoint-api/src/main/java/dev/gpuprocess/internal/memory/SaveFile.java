package dev.gpuprocess.internal.memory;

import dev.gpuprocess.internal.image.FileChecksums;
import dev.gpuprocess.internal.linux.BlockFile;
import dev.gpuprocess.internal.linux.CurrentUser;
import dev.gpuprocess.internal.linux.IoExecutor;
import dev.gpuprocess.internal.linux.NamelessFile;
import dev.gpuprocess.internal.manifest.Checksum;
import dev.gpuprocess.internal.manifest.ChecksummedFile;
import dev.gpuprocess.internal.manifest.MemoryFile;
import dev.gpuprocess.internal.proc.AddressRange;
import dev.gpuprocess.internal.proc.FileId;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.SaveFileMappings;
import dev.gpuprocess.internal.time.WorkLimit;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * A save file: a file in host memory that holds a part of the GPU memory of a suspended process.
 *
 * @param number of the file in an image, from 1
 * @param file opened through the process, so that it is the mapped one
 * @param mappings of the process, ordered by address
 */
record SaveFile(int number, BlockFile file, List<Mapping> mappings) implements AutoCloseable {

  private static final int S_IFREG = 0100000;
  private static final int PRIVATE = 0600;

  private static final String DEVICE = "unix:dev";

  /**
   * Opens the mapped file, whatever its name is. A file without a name is opened for writing only
   * when its identity, its owner and the absence of names have shown that it is one of ours: the
   * process could have exchanged the mapping.
   *
   * @throws IOException if it cannot be opened, or is another file than the mappings show
   */
  static SaveFile open(ProcessIdentity process, int number, List<Mapping> mappings)
      throws IOException {
    Mapping first = mappings.get(0);
    BlockFile read = BlockFile.openThrough(ProcFs.file(process.pid(), "map_files", first.range()));
    try {
      Path self = ProcFs.descriptor(read.descriptor());
      if (!FileId.of(self).equals(first.file())) {
        throw new IOException(
            "process %s has exchanged the mapping %s".formatted(process.pid(), first.range()));
      }
      if (!SaveFileMappings.isNameless(first.name())) {
        return new SaveFile(number, read, mappings);
      }
      requireOurs(self);
      BlockFile write = BlockFile.open(self, false);
      read.close();
      return new SaveFile(number, write, mappings);
    } catch (IOException | RuntimeException | Error e) {
      read.close();
      throw e;
    }
  }

  private static void requireOurs(Path file) throws IOException {
    Map<String, Object> status = Files.readAttributes(file, "unix:uid,mode,nlink");
    boolean ours =
        Integer.valueOf(CurrentUser.get().effectiveUid()).equals(status.get("uid"))
            && Integer.valueOf(S_IFREG | PRIVATE).equals(status.get("mode"))
            && Integer.valueOf(0).equals(status.get("nlink"));
    if (!ours) {
      throw new IOException("%s is not a file of this library: %s".formatted(file, status));
    }
  }

  /** Returns the name in its directory. */
  String name() {
    return "memory-" + number + ".bin";
  }

  /** Returns the path in an image, or below another directory. */
  String path() {
    return MemoryFile.DIRECTORY + "/" + name();
  }

  /** Returns the name in the mappings of the process. */
  String shown() {
    return mappings.get(0).name();
  }

  /** Returns whether the file has no name by which CRIU would find it. */
  boolean isNameless() {
    return SaveFileMappings.isNameless(shown());
  }

  /** Returns its size: up to the end of its last mapping. */
  long bytes() {
    return mappings.stream()
        .mapToLong(each -> each.offset() + each.addresses().bytes())
        .max()
        .orElseThrow();
  }

  /** Returns its addresses in the process, gaps between its mappings included. */
  AddressRange range() {
    Mapping first = mappings.get(0);
    long start = first.start() - first.offset();
    return new AddressRange(start, start + bytes());
  }

  MemoryFile described(Path mappedAs) {
    return new MemoryFile(path(), mappedAs.toString(), List.of(range().toString()));
  }

  /** Returns whether it is on the file system of a directory, where it can be linked. */
  boolean isOn(Path directory) throws IOException {
    Path self = ProcFs.descriptor(file.descriptor());
    return Files.getAttribute(self, DEVICE).equals(Files.getAttribute(directory, DEVICE));
  }

  /** Links it into an image; false if that is on another file system. */
  boolean isLinkedInto(Path directory) {
    try {
      NamelessFile.link(file.descriptor(), directory.resolve(name()));
      return true;
    } catch (IOException otherFileSystem) {
      return false;
    }
  }

  /** Computes the checksums of its content, for the manifest. */
  ChecksummedFile sums(Checksum checksum, WorkLimit limit) throws IOException {
    return sums(IoExecutor.copying(), checksum, limit, null);
  }

  /**
   * Copies the file into an image and syncs the copy.
   *
   * @param directory of memory files of the image
   * @return the copy, with its checksums
   */
  ChecksummedFile copyTo(Path directory, Checksum checksum, WorkLimit limit) throws IOException {
    try (BlockFile to = BlockFile.create(directory.resolve(name()), true)) {
      to.reserve(bytes());
      to.prepare(0, bytes());
      IoExecutor threads = to.isInMemory() ? IoExecutor.copying() : IoExecutor.streaming();
      ChecksummedFile done = sums(threads, checksum, limit, to);
      to.sync();
      return done;
    }
  }

  private ChecksummedFile sums(
      IoExecutor threads, Checksum checksum, WorkLimit limit, @Nullable BlockFile to)
      throws IOException {
    return FileChecksums.copy(path(), bytes(), checksum, offset -> file, to, threads, limit);
  }

  @Override
  public void close() {
    file.close();
  }
}
