package dev.gpuprocess.internal.image;

import dev.gpuprocess.image.Checksum;
import dev.gpuprocess.image.ImageFile;
import dev.gpuprocess.internal.linux.IoExecutor;
import dev.gpuprocess.internal.linux.PinnedDirectory;
import dev.gpuprocess.internal.time.WorkLimit;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/** The checksums of a file whose chunks are read in parallel. */
final class FileChecksums {

  private final String path;
  private final long bytes;
  private final Checksum checksum;
  private final List<CompletableFuture<String>> chunks = new ArrayList<>();

  private FileChecksums(String path, long bytes, Checksum checksum) {
    this.path = path;
    this.bytes = bytes;
    this.checksum = checksum;
  }

  /** Starts to read a file, which is named as in the manifest. */
  static FileChecksums start(
      IoExecutor cores, PinnedDirectory image, String path, Checksum checksum, WorkLimit reading)
      throws IOException {
    Path file = image.path().resolve(path);
    long bytes = Files.size(file);
    FileChecksums sums = new FileChecksums(path, bytes, checksum);
    for (long at = 0; at < bytes; at += ImageFile.CHUNK_BYTES) {
      long from = at;
      long to = Math.min(bytes, at + ImageFile.CHUNK_BYTES);
      sums.chunks.add(cores.start(() -> ChunkChecksum.of(checksum, file, from, to, reading)));
    }
    return sums;
  }

  /** Waits until the file is read. */
  ImageFile await() throws IOException {
    List<String> done = new ArrayList<>();
    for (CompletableFuture<String> chunk : chunks) {
      done.add(IoExecutor.await(chunk));
    }
    return new ImageFile(path, bytes, checksum, done);
  }
}
