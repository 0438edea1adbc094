package dev.gpuprocess.internal.image;

import dev.gpuprocess.internal.linux.AlignedBuffer;
import dev.gpuprocess.internal.linux.BlockFile;
import dev.gpuprocess.internal.linux.CopyBuffers;
import dev.gpuprocess.internal.linux.IoExecutor;
import dev.gpuprocess.internal.linux.PinnedDirectory;
import dev.gpuprocess.internal.manifest.Checksum;
import dev.gpuprocess.internal.manifest.ChecksummedFile;
import dev.gpuprocess.internal.time.WorkLimit;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.LongFunction;
import org.jspecify.annotations.Nullable;

/** The checksums of a file of an image. Its chunks are read in parallel. */
public final class FileChecksums {

  private final String path;
  private final long bytes;
  private final Checksum checksum;
  private final List<CompletableFuture<String>> chunks = new ArrayList<>();

  private FileChecksums(String path, long bytes, Checksum checksum) {
    this.path = path;
    this.bytes = bytes;
    this.checksum = checksum;
  }

  /** Computes the checksum of a part of a file. */
  private interface Chunk {
    String read(long from, long to) throws IOException;
  }

  private FileChecksums start(IoExecutor threads, Chunk chunk) {
    for (long at = 0; at < bytes; at += ChecksummedFile.CHUNK_BYTES) {
      long from = at;
      long to = Math.min(bytes, at + ChecksummedFile.CHUNK_BYTES);
      chunks.add(threads.start(() -> chunk.read(from, to)));
    }
    return this;
  }

  /** Starts to read a file, which is named as in the manifest. */
  static FileChecksums start(
      IoExecutor cores, PinnedDirectory image, String path, Checksum checksum, WorkLimit reading)
      throws IOException {
    Path file = image.path().resolve(path);
    return new FileChecksums(path, Files.size(file), checksum)
        .start(cores, (from, to) -> ChunkChecksum.of(checksum, file, from, to, reading));
  }

  /** Waits until the file is read. */
  ChecksummedFile await() throws IOException {
    return new ChecksummedFile(path, bytes, checksum, IoExecutor.awaitAll(chunks));
  }

  /**
   * Reads a large file, and copies it if there is a target, without the zeros if that is on a disk
   * and was reserved.
   *
   * @param path the path of the file in an image
   * @param bytes its size
   * @param from returns the open file from which the chunk at an offset is read
   * @param to the target; null for checksums alone
   * @param workers closed when this returns
   * @return the file, with the checksums of the bytes that were read
   * @throws IOException when it cannot be read or written
   */
  public static ChecksummedFile copy(
      String path,
      long bytes,
      Checksum checksum,
      LongFunction<BlockFile> from,
      @Nullable BlockFile to,
      IoExecutor workers,
      WorkLimit limit)
      throws IOException {
    try (IoExecutor threads = workers) {
      return new FileChecksums(path, bytes, checksum)
          .start(
              threads,
              (begin, end) ->
                  copied(begin, end, from.apply(begin), to, ChunkChecksum.of(checksum), limit))
          .await();
    }
  }

  private static String copied(
      long begin,
      long end,
      BlockFile from,
      @Nullable BlockFile to,
      ChunkChecksum sum,
      WorkLimit limit)
      throws IOException {
    CopyBuffers buffers = from.isDirect() ? CopyBuffers.LARGE : CopyBuffers.SMALL;
    AlignedBuffer buffer = buffers.take();
    try {
      for (long at = begin; at < end; at += buffer.size()) {
        limit.check();
        int count = (int) Math.min(buffer.size(), end - at);
        from.read(buffer, count, at);
        sum.add(buffer.first(count));
        if (to != null) {
          to.writeContent(buffer, count, at);
        }
      }
    } finally {
      CopyBuffers.give(buffer);
    }
    return sum.text();
  }
}
