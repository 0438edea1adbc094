package dev.gpuprocess.internal.linux;

import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.ProcFs;
import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Path;
import java.util.Optional;

/**
 * The file behind a mapping of another process ({@code /proc/PID/map_files}). The process can
 * exchange the mapping at any moment, so the file is held by a descriptor without right to read or
 * write, and examined by {@code fstat} of that descriptor. No other class opens such files.
 */
public final class MappedFile implements AutoCloseable {

  private final int descriptor;
  private final FileNode node;

  private MappedFile(int descriptor, FileNode node) {
    this.descriptor = descriptor;
    this.node = node;
  }

  /**
   * Holds the file that is mapped now. Blocks for no lease, FIFO or device.
   *
   * @throws FileSystemException if nothing is mapped at these addresses, or permission is missing
   * @throws IOException if the file cannot be examined
   */
  public static MappedFile hold(int pid, Mapping mapping) throws IOException {
    int held = Descriptors.hold(ProcFs.file(pid, "map_files", mapping.range()));
    try {
      return new MappedFile(held, FileNode.of(held));
    } catch (IOException | RuntimeException | Error e) {
      Descriptors.close(held);
      throw e;
    }
  }

  /**
   * Examines the file that is mapped now.
   *
   * @return empty if nothing is mapped at these addresses, or permission is missing
   */
  public static Optional<FileNode> examine(int pid, Mapping mapping) {
    try (MappedFile file = hold(pid, mapping)) {
      return Optional.of(file.node);
    } catch (IOException goneOrForbidden) {
      return Optional.empty();
    }
  }

  /** Returns the file as it was when it was held. */
  public FileNode node() {
    return node;
  }

  /** Returns a path for this JVM that leads to this very file until {@link #close}. */
  public Path path() {
    return ProcFs.descriptor(descriptor);
  }

  /**
   * Opens the file for reading. Does not wait for the holder of a lease.
   *
   * @throws FileSystemException if it cannot be opened
   */
  public BlockFile openToRead() throws FileSystemException {
    return BlockFile.openHeld(path());
  }

  /** Closes the descriptor. */
  @Override
  public void close() {
    Descriptors.close(descriptor);
  }
}
