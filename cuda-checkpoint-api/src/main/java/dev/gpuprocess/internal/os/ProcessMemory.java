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
    NativeMemory block = NativeMemory.of(Math.max(1, length));
    readTo(block.address(), address, length);
    byte[] bytes = block.read(0, length);
    block.keep();
    return bytes;
  }

  /** Reads a {@code long}. */
  public long readLong(long address) throws ErrnoException {
    NativeMemory block = NativeMemory.of(Long.BYTES);
    readTo(block.address(), address, Long.BYTES);
    long value = block.getLong(0);
    block.keep();
    return value;
  }

  /**
   * Reads to an address of this JVM.
   *
   * @throws ErrnoException when not all of it can be read
   */
  public void readTo(long here, long there, long length) throws ErrnoException {
    check(
        "process_vm_readv",
        there,
        length,
        Ptrace.library()
            .process_vm_readv(
                task, new long[] {here, length}, 1, new long[] {there, length}, 1, 0));
  }

  /**
   * Writes.
   *
   * @throws ErrnoException when not all of it could be written
   */
  public void write(long address, byte[] content) throws ErrnoException {
    NativeMemory block = NativeMemory.of(content);
    long written =
        Ptrace.library()
            .process_vm_writev(
                task,
                new long[] {block.address(), content.length},
                1,
                new long[] {address, content.length},
                1,
                0);
    block.keep();
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
          "%s of %s bytes at %x of task %s".formatted(call, length, address, task),
          result < 0 ? Libc.errno() : EFAULT);
    }
  }
}
