package dev.gpuprocess.internal.memory;

import dev.gpuprocess.internal.image.FileChecksums;
import dev.gpuprocess.internal.linux.BlockFile;
import dev.gpuprocess.internal.linux.CurrentUser;
import dev.gpuprocess.internal.linux.FileRange;
import dev.gpuprocess.internal.linux.FileWriters;
import dev.gpuprocess.internal.linux.IoExecutor;
import dev.gpuprocess.internal.linux.MappedFile;
import dev.gpuprocess.internal.linux.NamelessFile;
import dev.gpuprocess.internal.manifest.Checksum;
import dev.gpuprocess.internal.manifest.ChecksummedFile;
import dev.gpuprocess.internal.manifest.MemoryFile;
import dev.gpuprocess.internal.proc.AddressRange;
import dev.gpuprocess.internal.proc.FileId;
import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.SaveFileMappings;
import dev.gpuprocess.internal.time.WorkLimit;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A save file: a file in host memory that holds a part of the GPU memory of a suspended process.
 *
 * @param number of the file in an image, from 1
 * @param file opened through the process, so that it is the mapped one
 * @param mappings of the process, ordered by address
 */
record SaveFile(int number, BlockFile file, List<Mapping> mappings) implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private static final int PRIVATE = 0600;

  private static final String DEVICE = "unix:dev";

  /**
   * Opens the mapped file for reading, whatever its name is. A file without a name must be one of
   * ours, by its identity, its owner and the absence of names: the process could have exchanged the
   * mapping.
   *
   * @throws IOException if it cannot be opened, or is another file than the mappings show
   */
  static SaveFile open(ProcessIdentity process, int number, List<Mapping> mappings)
      throws IOException {
    Mapping first = mappings.get(0);
    try (MappedFile held = MappedFile.hold(process.pid(), first)) {
      FileNode node = held.node();
      if (!node.id().equals(first.file())) {
        throw new IOException(
            "process %s has exchanged the mapping %s".formatted(process.pid(), first.range()));
      }
      if (SaveFileMappings.isNameless(first.name())) {
        requireOurs(node);
      }
      SaveFile file = new SaveFile(number, held.openToRead(), mappings);
      if (file.bytes() > node.bytes()) {
        file.close();
        throw new IOException(
            "process %s maps more than there is of the file at %s"
                .formatted(process.pid(), first.range()));
      }
      return file;
    }
  }

  /** Returns whether a file is as this library makes its files, and is in no image. */
  static boolean isOurs(FileNode file) throws IOException {
    return file.isRegular()
        && file.permissions() == PRIVATE
        && file.links() == 0
        && file.user() == CurrentUser.get().effectiveUid();
  }

  private static void requireOurs(FileNode file) throws IOException {
    if (!isOurs(file)) {
      throw new IOException("a mapped file is not of this library: " + file);
    }
  }

  /**
   * Frees the memory behind the save areas: the file of an image ends there. The process has chosen
   * its mappings, so the file never becomes longer.
   */
  void trim() throws IOException {
    Path self = ProcFs.descriptor(file.descriptor());
    if (bytes() < Files.size(self)) {
      try (BlockFile written = BlockFile.open(self, false)) {
        written.truncate(bytes());
      }
    }
  }

  FileId id() {
    return mappings.get(0).file();
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
    List<String> zeros =
        unmapped().stream()
            .map(
                each ->
                    new AddressRange(range().start() + each.from(), range().start() + each.to()))
            .map(AddressRange::toString)
            .toList();
    return new MemoryFile(
        path(), mappedAs.toString(), List.of(range().toString()), zeros.isEmpty() ? null : zeros);
  }

  /** Returns the parts between its mappings, which are zero. */
  private List<FileRange> unmapped() {
    List<FileRange> parts = new ArrayList<>();
    long mapped = 0;
    for (Mapping each : mappings) {
      if (each.offset() > mapped) {
        parts.add(new FileRange(mapped, each.offset()));
      }
      mapped = each.offset() + each.addresses().bytes();
    }
    return parts;
  }

  /** Returns whether it is on the file system of a directory, where it can be linked. */
  boolean isOn(Path directory) throws IOException {
    Path self = ProcFs.descriptor(file.descriptor());
    return Files.getAttribute(self, DEVICE).equals(Files.getAttribute(directory, DEVICE));
  }

  /**
   * Links it into an image; false if that is on another file system, or if a process can still
   * write to the file: then the image needs a copy.
   */
  boolean isLinkedInto(Path directory) {
    try {
      if (!FileWriters.areNone(ProcFs.descriptor(file.descriptor()))) {
        LOG.info("{} is copied into the image: a process can still write to it", shown());
        return false;
      }
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
      to.leaveUnmapped(unmapped());
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
