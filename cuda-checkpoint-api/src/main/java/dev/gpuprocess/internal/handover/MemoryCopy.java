package dev.gpuprocess.internal.handover;

import dev.gpuprocess.image.Checksum;
import dev.gpuprocess.image.ImageFile;
import dev.gpuprocess.internal.os.AlignedBuffer;
import dev.gpuprocess.internal.os.BlockFile;
import dev.gpuprocess.internal.os.ProcessMemory;
import dev.gpuprocess.internal.store.IoExecutor;
import dev.gpuprocess.internal.store.RunningChecksum;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/**
 * Copies memory of a process into a file on several threads, with the checksums that the manifest
 * has of the file. The process must not change it meanwhile. For one thread.
 */
final class MemoryCopy {

  private final ProcessMemory memory;
  private final List<PlacedRange> ranges;
  private final Checksum checksum;
  private final CopyLimit limit;
  private final List<String> sums = new ArrayList<>();

  MemoryCopy(int task, List<PlacedRange> ranges, Checksum checksum, CopyLimit limit) {
    this.memory = new ProcessMemory(task);
    this.ranges = ranges;
    this.checksum = checksum;
    this.limit = limit;
  }

  /**
   * Copies the next part of the file.
   *
   * @param from where the last part ended
   * @param to a multiple of {@link ImageFile#CHUNK_BYTES} after 0, or the end of the file
   * @throws IOException when the memory cannot be read or the file not written
   */
  void copy(BlockFile file, long from, long to) throws IOException {
    file.prepare(from, to);
    try (IoExecutor threads = file.isInMemory() ? IoExecutor.copying() : IoExecutor.streaming()) {
      List<CompletableFuture<String>> chunks = new ArrayList<>();
      for (long at = from; at < to; at += ImageFile.CHUNK_BYTES) {
        long begin = at;
        long end = Math.min(to, at + ImageFile.CHUNK_BYTES);
        chunks.add(threads.start(() -> chunk(file, begin, end)));
      }
      for (CompletableFuture<String> chunk : chunks) {
        sums.add(IoExecutor.await(chunk));
      }
    }
  }

  /** The checksums of the chunks that were copied. */
  List<String> sums() {
    return List.copyOf(sums);
  }

  private String chunk(BlockFile file, long from, long to) throws IOException {
    RunningChecksum sum = RunningChecksum.of(checksum);
    AlignedBuffer buffer = CopyBuffers.take();
    try {
      for (PlacedRange all : ranges) {
        PlacedRange part = all.in(from, to).orElse(null);
        if (part != null) {
          copy(file, part, buffer, sum);
        }
      }
    } finally {
      CopyBuffers.give(buffer);
    }
    return sum.text();
  }

  private void copy(BlockFile file, PlacedRange part, AlignedBuffer buffer, RunningChecksum sum)
      throws IOException {
    long done = 0;
    while (done < part.range().bytes()) {
      limit.requireTime();
      int count = (int) Math.min(buffer.size(), part.range().bytes() - done);
      memory.readTo(buffer.address(), part.range().start() + done, count);
      sum.add(buffer.first(count));
      file.write(buffer, count, part.offset() + done);
      done += count;
    }
  }
}
