package dev.gpuprocess.internal.handover;

import dev.gpuprocess.internal.os.AlignedBuffer;
import dev.gpuprocess.internal.os.ProcessMemory;
import dev.gpuprocess.internal.proc.AddressRange;
import dev.gpuprocess.internal.proc.HostMemory;
import dev.gpuprocess.internal.store.IoExecutor;
import dev.gpuprocess.internal.trace.UntraceableException;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/**
 * Gives a process memory of its own again in the place of a mapped file, piece by piece. Each piece
 * is copied elsewhere in the process and then moved over the file in one step, so the process has
 * its bytes at every moment, with what it wrote since the hand-over. For one thread.
 */
final class PutBack {

  /** Takes that much memory more for a moment. */
  static final long PIECE_BYTES = 256 << 20;

  /** What must be left free, lest the kernel kill a process for the copy. */
  private static final long SPARE_BYTES = 64 << 20;

  private static final long PART_BYTES = 16 << 20;
  private static final Path MEMORY = Path.of("/proc/meminfo");

  private final ProcessMemory memory;
  private final Holding held;

  PutBack(int task, Holding held) {
    this.memory = new ProcessMemory(task);
    this.held = held;
  }

  /**
   * Does it.
   *
   * @param mapped what is mapped from the file
   * @throws IOException when it cannot be done; the rest then stays mapped from the file, with the
   *     same bytes
   */
  void run(List<AddressRange> mapped) throws IOException, UntraceableException {
    for (AddressRange range : mapped) {
      for (long at = range.start(); at < range.end(); at += PIECE_BYTES) {
        putBack(new AddressRange(at, Math.min(range.end(), at + PIECE_BYTES)));
      }
    }
  }

  private void putBack(AddressRange piece) throws IOException, UntraceableException {
    if (HostMemory.read(MEMORY).available() < piece.bytes() + SPARE_BYTES) {
      throw new IOException("this machine has no memory to spare");
    }
    held.replace(piece, fresh -> copy(piece, fresh));
  }

  private void copy(AddressRange from, long to) throws IOException {
    try (IoExecutor threads = IoExecutor.copying()) {
      List<CompletableFuture<Boolean>> parts = new ArrayList<>();
      for (long done = 0; done < from.bytes(); done += PART_BYTES) {
        long begin = done;
        long end = Math.min(from.bytes(), done + PART_BYTES);
        parts.add(threads.start(() -> copy(from.start(), to, begin, end)));
      }
      for (CompletableFuture<Boolean> part : parts) {
        boolean unused = IoExecutor.await(part);
      }
    }
  }

  private boolean copy(long from, long to, long begin, long end) throws IOException {
    AlignedBuffer buffer = CopyBuffers.take();
    try {
      for (long done = begin; done < end; done += buffer.size()) {
        int count = (int) Math.min(buffer.size(), end - done);
        memory.readTo(buffer.address(), from + done, count);
        memory.writeFrom(buffer.address(), to + done, count);
      }
      return true;
    } finally {
      CopyBuffers.give(buffer);
    }
  }
}
