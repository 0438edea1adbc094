package dev.gpuprocess.internal.restore;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.image.VerifiedImage;
import dev.gpuprocess.internal.linux.Descriptors;
import dev.gpuprocess.internal.manifest.ManifestData;
import dev.gpuprocess.internal.manifest.MemoryFile;
import dev.gpuprocess.options.RestoreOptions;
import java.io.IOException;
import java.util.Map;
import java.util.TreeMap;

/**
 * The memory files of an image, open for a restore. CRIU uses them instead of the files whose paths
 * it recorded at the dump, so the image may have been moved.
 */
final class MemoryDescriptors implements AutoCloseable {

  private final Map<String, Integer> open = new TreeMap<>();

  private MemoryDescriptors() {}

  static MemoryDescriptors open(ManifestData manifest, VerifiedImage image) {
    MemoryDescriptors all = new MemoryDescriptors();
    try {
      for (MemoryFile memory : manifest.memoryFiles()) {
        // A private mapping needs no right to write. The name is CRIU's: without the first slash.
        int descriptor = Descriptors.openToRead(image.file(memory));
        all.open.put(memory.mappedAs().substring(1), descriptor);
      }
      return all;
    } catch (IOException e) {
      all.close();
      throw new ImageException(
          ImageException.Reason.UNREADABLE,
          "the image of process %s was not restored, because a memory file cannot be opened: %s"
              .formatted(manifest.pid(), e.getMessage()),
          Failure.of("restore", manifest.pid()),
          e);
    }
  }

  RestoreOptions with(RestoreOptions options) {
    return open.isEmpty()
        ? options
        : options.toBuilder().criu(criu -> open.forEach(criu::inherit)).build();
  }

  @Override
  public void close() {
    open.values().forEach(Descriptors::close);
    open.clear();
  }
}
