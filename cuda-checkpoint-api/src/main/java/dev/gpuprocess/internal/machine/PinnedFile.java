package dev.gpuprocess.internal.machine;

import dev.gpuprocess.internal.linux.Descriptors;
import dev.gpuprocess.internal.proc.ProcFs;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.time.Instant;
import java.util.Optional;

/**
 * A file at an untrusted path. It is pinned before its attributes are read, and opened only if it
 * is a regular file: opening a FIFO would block, and opening a device may have an effect.
 */
final class PinnedFile implements AutoCloseable {

  private final int descriptor;
  private final Path self;
  private final BasicFileAttributes attributes;

  private PinnedFile(int descriptor, Path self, BasicFileAttributes attributes) {
    this.descriptor = descriptor;
    this.self = self;
    this.attributes = attributes;
  }

  /**
   * Pins a file, following links.
   *
   * @throws java.nio.file.NoSuchFileException if it does not exist
   */
  static PinnedFile at(Path path) throws IOException {
    int descriptor = Descriptors.hold(path);
    Path self = ProcFs.descriptor(descriptor);
    try {
      return new PinnedFile(
          descriptor, self, Files.readAttributes(self, BasicFileAttributes.class));
    } catch (IOException | RuntimeException | Error e) {
      Descriptors.close(descriptor);
      throw e;
    }
  }

  boolean isRegular() {
    return attributes.isRegularFile();
  }

  long bytes() {
    return attributes.size();
  }

  Instant modified() {
    return attributes.lastModifiedTime().toInstant();
  }

  /** Returns the build id of a regular file. */
  Optional<String> buildId() throws IOException {
    try (RandomAccessFile file = Descriptors.read(self)) {
      return BuildId.of(file);
    }
  }

  @Override
  public void close() {
    Descriptors.close(descriptor);
  }
}
