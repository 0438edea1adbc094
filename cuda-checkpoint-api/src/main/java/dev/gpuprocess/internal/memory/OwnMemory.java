package dev.gpuprocess.internal.memory;

import dev.gpuprocess.internal.linux.AlignedBuffer;
import dev.gpuprocess.internal.linux.CopyBuffers;
import dev.gpuprocess.internal.linux.IoExecutor;
import dev.gpuprocess.internal.linux.ProcessMemory;
import dev.gpuprocess.internal.proc.AddressRange;
import dev.gpuprocess.internal.proc.ControlGroup;
import dev.gpuprocess.internal.proc.HostMemory;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.remote.RemoteCalls;
import dev.gpuprocess.internal.remote.RemoteThread;
import dev.gpuprocess.internal.remote.SystemCall;
import dev.gpuprocess.internal.remote.UntraceableException;
import dev.gpuprocess.internal.text.Bytes;
import dev.gpuprocess.internal.time.WorkLimit;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;

/**
 * Replaces save files that CRIU could not find by anonymous memory, piece by piece. Each piece is
 * copied to other memory of the process, which is then moved over the mapping of the file in one
 * step, so the process has its bytes at every moment. The process must not write to that memory at
 * the same time. It does not while it is suspended, since only the driver knows the address.
 */
public final class OwnMemory {

  /** The additional memory that a copy takes for a moment. */
  private static final long PIECE_BYTES = 256 << 20;

  /** Memory to leave free, so that the OOM killer is not triggered. */
  private static final long SPARE_BYTES = 64 << 20;

  private static final Duration BORROWING = Duration.ofSeconds(60);

  private static final long PART_BYTES = 16 << 20;
  private static final int MAYMOVE_FIXED = 3;

  private OwnMemory() {}

  /**
   * Replaces the mappings.
   *
   * @param ranges the mappings of the files, which may be of any size
   * @param limit of all of it
   * @throws UntraceableException if no call can be made in the process
   * @throws IOException if the process may not have so much memory, or a copy failed; the other
   *     pieces stay mapped from the files, with the same bytes
   */
  public static void give(ProcessIdentity process, List<AddressRange> ranges, WorkLimit limit)
      throws IOException, UntraceableException {
    requireRoom(process, ranges.stream().mapToLong(AddressRange::bytes).sum());
    for (AddressRange range : ranges) {
      for (long at = range.start(); at < range.end(); at += PIECE_BYTES) {
        limit.check();
        AddressRange piece = new AddressRange(at, Math.min(range.end(), at + PIECE_BYTES));
        if (HostMemory.read(HostMemory.FILE).available() < piece.bytes() + SPARE_BYTES) {
          throw new IOException("this machine has too little free memory");
        }
        RemoteCalls.borrow(process, BORROWING, thread -> replace(thread, process, piece, limit));
      }
    }
  }

  /** The files may be charged to this JVM; the copies are to the process. */
  private static void requireRoom(ProcessIdentity process, long bytes) throws IOException {
    OptionalLong room = ControlGroup.memoryRoom(process.pid());
    if (room.isPresent() && room.getAsLong() < bytes + SPARE_BYTES) {
      throw new IOException(
          "its control group allows the process only %s more memory"
              .formatted(Bytes.text(Math.max(0, room.getAsLong()))));
    }
  }

  private static boolean replace(
      RemoteThread thread, ProcessIdentity process, AddressRange piece, WorkLimit limit)
      throws IOException, UntraceableException {
    long fresh = thread.map(piece.bytes());
    try {
      copy(new ProcessMemory(ProcFs.anyThread(process.pid())), piece, fresh, limit);
    } catch (IOException | RuntimeException e) {
      thread.unmap(fresh, piece.bytes());
      throw e;
    }
    move(thread, fresh, piece);
    return true;
  }

  /** Moves memory, whose removal is the last exit call, over other memory in one step. */
  static void move(RemoteThread thread, long fresh, AddressRange to)
      throws IOException, UntraceableException {
    // After the move these addresses may belong to another mapping: do not unmap them later.
    thread.cancelExitCall();
    try {
      thread.call(SystemCall.MREMAP, fresh, to.bytes(), to.bytes(), MAYMOVE_FIXED, to.start());
    } catch (IOException e) {
      thread.call(SystemCall.MUNMAP, fresh, to.bytes());
      throw e;
    }
  }

  private static void copy(ProcessMemory memory, AddressRange from, long to, WorkLimit limit)
      throws IOException {
    try (IoExecutor threads = IoExecutor.copying()) {
      List<CompletableFuture<Boolean>> parts = new ArrayList<>();
      for (long done = 0; done < from.bytes(); done += PART_BYTES) {
        long begin = done;
        long end = Math.min(from.bytes(), done + PART_BYTES);
        parts.add(threads.start(() -> copy(memory, from.start(), to, begin, end, limit)));
      }
      List<Boolean> unused = IoExecutor.awaitAll(parts);
    }
  }

  private static boolean copy(
      ProcessMemory memory, long from, long to, long begin, long end, WorkLimit limit)
      throws IOException {
    AlignedBuffer buffer = CopyBuffers.SMALL.take();
    try {
      for (long done = begin; done < end; done += buffer.size()) {
        limit.check();
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
