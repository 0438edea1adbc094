package dev.gpuprocess.internal.os;

/**
 * The memory of another process ({@code process_vm_readv}, {@code process_vm_writev}). Protection
 * is heeded as if the process did it itself. Safe for use by several threads.
 *
 * @param task a living thread of the process
 */
public record ProcessMemory(int task) {

  /** {@code EFAULT}: not mapped, or not so protected. */
  public static final int EFAULT = 14;

  /**
   * Reads.
   *
   * @throws ErrnoException when not all of it can be read
   */
  public byte[] read(long address, int length) throws ErrnoException {
    return block(address, length).read(0, length);
  }

  /** Reads a {@code long}. */
  public long readLong(long address) throws ErrnoException {
    return block(address, Long.BYTES).getLong(0);
  }

  private NativeMemory block(long address, int length) throws ErrnoException {
    NativeMemory block = NativeMemory.of(Math.max(1, length));
    check("process_vm_readv", address, length, block.with(here -> readv(here, address, length)));
    return block;
  }

  /**
   * Reads to an address of this JVM.
   *
   * @throws ErrnoException when not all of it can be read
   */
  public void readTo(long here, long there, long length) throws ErrnoException {
    check("process_vm_readv", there, length, readv(here, there, length));
  }

  private long readv(long here, long there, long length) {
    return Ptrace.library()
        .process_vm_readv(task, new long[] {here, length}, 1, new long[] {there, length}, 1, 0);
  }

  /**
   * Writes.
   *
   * @throws ErrnoException when not all of it could be written
   */
  public void write(long address, byte[] content) throws ErrnoException {
    long[] there = {address, content.length};
    long written =
        NativeMemory.of(content)
            .with(
                here ->
                    Ptrace.library()
                        .process_vm_writev(
                            task, new long[] {here, content.length}, 1, there, 1, 0));
    check("process_vm_writev", address, content.length, written);
  }

  /**
   * Writes from an address of this JVM.
   *
   * @throws ErrnoException when not all of it could be written
   */
  public void writeFrom(long here, long there, long length) throws ErrnoException {
    check(
        "process_vm_writev",
        there,
        length,
        Ptrace.library()
            .process_vm_writev(
                task, new long[] {here, length}, 1, new long[] {there, length}, 1, 0));
  }

  private void check(String call, long address, long length, long result) throws ErrnoException {
    if (result != length) {
      throw new ErrnoException(
          "%s of %s bytes at %s of task %s"
              .formatted(call, length, Long.toHexString(address), task),
          result < 0 ? Libc.errno() : EFAULT);
    }
  }
}
