package dev.gpuprocess.internal.os;

import dev.gpuprocess.internal.jnr.MemoryFunctions;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * The memory of another process, by {@code process_vm_readv} and {@code process_vm_writev}. Needs
 * the right to trace it. Safe for use by several threads, each with a buffer of its own.
 */
public final class MemoryTransfer {

  private static final MemoryFunctions LIBRARY = NativeLibraries.load(MemoryFunctions.class, "c");

  private MemoryTransfer() {}

  /** One of the two calls. */
  private interface Call {
    long move(int pid, byte[] local, byte[] remote);
  }

  /**
   * Reads.
   *
   * @param address where in the process
   * @param into gets {@code count} bytes
   * @throws IOException when a part cannot be read: there is no such memory, or the process is gone
   */
  public static void read(int pid, long address, AlignedBuffer into, int count)
      throws IOException {
    move(
        pid,
        address,
        into,
        count,
        "cannot be read",
        (id, local, remote) -> LIBRARY.process_vm_readv(id, local, 1, remote, 1, 0));
  }

  /**
   * Writes.
   *
   * @param address where in the process
   * @param from has {@code count} bytes
   * @throws IOException when a part cannot be written
   */
  public static void write(int pid, long address, AlignedBuffer from, int count)
      throws IOException {
    move(
        pid,
        address,
        from,
        count,
        "cannot be written",
        (id, local, remote) -> LIBRARY.process_vm_writev(id, local, 1, remote, 1, 0));
  }

  private static void move(
      int pid, long address, AlignedBuffer buffer, int count, String failed, Call call)
      throws IOException {
    int done = 0;
    while (done < count) {
      long moved =
          call.move(
              pid,
              vector(buffer.address() + done, count - done),
              vector(address + done, count - done));
      if (moved <= 0) {
        throw new IOException(
            "the memory of process %s at %s %s: %s"
                .formatted(
                    pid,
                    Long.toHexString(address + done),
                    failed,
                    moved == 0 ? "nothing was moved" : Libc.LIBRARY.strerror(Libc.errno())));
      }
      done += (int) moved;
    }
  }

  /** {@code struct iovec}. */
  private static byte[] vector(long address, long count) {
    return ByteBuffer.allocate(2 * Long.BYTES)
        .order(ByteOrder.nativeOrder())
        .putLong(address)
        .putLong(count)
        .array();
  }
}
