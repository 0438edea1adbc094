package dev.gpuprocess.internal.target;

import dev.gpuprocess.internal.linux.ProcessMemory;
import dev.gpuprocess.internal.proc.ProcFs;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * The memory of another process, which is read with a budget: the tables there say how much is
 * read, and the process writes the tables. For one thread and one search.
 */
public final class TargetMemory implements ByteSource {

  /** The tables of driver 580 take 3 MiB and some thousand calls. */
  private static final long MOST_BYTES = 192 << 20;

  private static final int MOST_CALLS = 1 << 17;

  private final String subject;
  private final ByteSource source;
  private long bytesLeft = MOST_BYTES;
  private int callsLeft = MOST_CALLS;

  /**
   * Creates a reader with a whole budget.
   *
   * @param subject what the memory is of, for messages
   */
  public TargetMemory(String subject, ByteSource source) {
    this.subject = subject;
    this.source = source;
  }

  /** Returns a reader of a process with a whole budget. */
  public static TargetMemory of(int pid) {
    ProcessMemory memory = new ProcessMemory(ProcFs.anyThread(pid));
    return new TargetMemory("process " + pid, memory::read);
  }

  /**
   * Reads bytes.
   *
   * @throws UnknownKindException if the budget is spent
   * @throws IOException if not all of them can be read
   */
  @Override
  public byte[] read(long address, int bytes) throws IOException {
    bytesLeft -= bytes;
    callsLeft--;
    if (bytesLeft < 0 || callsLeft < 0) {
      throw unknown("its tables are larger than those of any driver");
    }
    return source.read(address, bytes);
  }

  /** Reads bytes as {@link #read} does, for numbers in the order of x86-64. */
  public ByteBuffer buffer(long address, int bytes) throws IOException {
    return ByteBuffer.wrap(read(address, bytes)).order(ByteOrder.LITTLE_ENDIAN);
  }

  /** Reads a word of 64 bits. */
  public long readLong(long address) throws IOException {
    return buffer(address, Long.BYTES).getLong();
  }

  /** Returns the exception for a table that cannot be used. */
  public UnknownKindException unknown(String why) {
    return new UnknownKindException(
        "libcuda of %s is of an unknown kind: %s".formatted(subject, why));
  }
}
