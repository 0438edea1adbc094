package dev.gpuprocess.internal.image;

import dev.gpuprocess.image.Checksum;
import dev.gpuprocess.image.ImageFile;
import dev.gpuprocess.internal.linux.AlignedBuffer;
import dev.gpuprocess.internal.linux.BlockFile;
import dev.gpuprocess.internal.linux.CopyBuffers;
import dev.gpuprocess.internal.linux.IoExecutor;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.LongFunction;
import org.jspecify.annotations.Nullable;

/**
 * Reads a file on several threads, computes the checksums that a manifest has of it, and copies it
 * if that is wanted.
 *
 * @param from the open file to read the chunk from that begins at an offset
 * @param to gets what is read; null for checksums alone
 * @param limit called before each block; throws when the time is up
 */
public record SummedCopy(LongFunction<BlockFile> from, @Nullable BlockFile to, Runnable limit) {

  /**
   * Does it.
   *
   * @param path of the file in an image
   * @param bytes its size
   * @param workers closed when this returns
   * @return the file, with the checksums of what was read
   * @throws IOException when it cannot be read or written
   */
  public ImageFile run(String path, long bytes, Checksum checksum, IoExecutor workers)
      throws IOException {
    try (IoExecutor threads = workers) {
      List<CompletableFuture<String>> chunks = new ArrayList<>();
      for (long at = 0; at < bytes; at += ImageFile.CHUNK_BYTES) {
        long begin = at;
        long end = Math.min(bytes, at + ImageFile.CHUNK_BYTES);
        chunks.add(threads.start(() -> chunk(begin, end, RunningChecksum.of(checksum))));
      }
      List<String> sums = new ArrayList<>();
      for (CompletableFuture<String> chunk : chunks) {
        sums.add(IoExecutor.await(chunk));
      }
      return new ImageFile(path, bytes, checksum, sums);
    }
  }

  private String chunk(long begin, long end, RunningChecksum sum) throws IOException {
    BlockFile file = from.apply(begin);
    AlignedBuffer buffer = CopyBuffers.take();
    try {
      for (long at = begin; at < end; at += buffer.size()) {
        limit.run();
        int count = (int) Math.min(buffer.size(), end - at);
        file.read(buffer, count, at);
        sum.add(buffer.first(count));
        if (to != null) {
          to.write(buffer, count, at);
        }
      }
    } finally {
      CopyBuffers.give(buffer);
    }
    return sum.text();
  }
}
