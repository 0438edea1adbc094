package dev.gpuprocess.internal.linux;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/**
 * The memory of another process ({@code process_vm_readv}, {@code process_vm_writev}). The kernel
 * checks the protection as for an access by the process itself. Safe for use by several threads.
 *
 * @param task a living thread of the process
 */
public record ProcessMemory(int task) {

  private static final int BLOCK = 1 << 16;

  /**
   * Blocks for reuse: memory outside of the heap is freed only when the garbage collector runs,
   * which these calls give little reason to. There are as many as threads used them at a time.
   */
  private static final Queue<NativeMemory> BLOCKS = new ConcurrentLinkedQueue<>();

  /**
   * Reads bytes.
   *
   * @throws NativeCallException when not all of them can be read
   */
  public byte[] read(long address, int length) throws NativeCallException {
    byte[] bytes = new byte[length];
    NativeMemory block = block();
    try {
      for (int done = 0; done < length; done += BLOCK) {
        long there = address + done;
        int part = Math.min(BLOCK, length - done);
        check("process_vm_readv", there, part, block.with(here -> readv(here, there, part)));
        block.read(0, bytes, done, part);
      }
    } finally {
      BLOCKS.add(block);
    }
    return bytes;
  }

  /** Reads a {@code long}. */
  public long readLong(long address) throws NativeCallException {
    return ByteBuffer.wrap(read(address, Long.BYTES)).order(ByteOrder.nativeOrder()).getLong();
  }

  private static NativeMemory block() {
    NativeMemory block = BLOCKS.poll();
    return block == null ? NativeMemory.of(BLOCK) : block;
  }

  /**
   * Reads to an address of this JVM.
   *
   * @throws NativeCallException when not all of it can be read
   */
  public void readTo(long here, long there, long length) throws NativeCallException {
    check("process_vm_readv", there, length, readv(here, there, length));
  }

  private long readv(long here, long there, long length) {
    return Libc.LIBRARY.process_vm_readv(
        task, new long[] {here, length}, 1, new long[] {there, length}, 1, 0);
  }

  /**
   * Writes bytes.
   *
   * @throws NativeCallException when not all of them could be written
   */
  public void write(long address, byte[] content) throws NativeCallException {
    NativeMemory block = block();
    try {
      for (int done = 0; done < content.length; done += BLOCK) {
        int part = Math.min(BLOCK, content.length - done);
        block.write(0, content, done, part);
        writeFrom(block.address(), address + done, part);
      }
    } finally {
      BLOCKS.add(block);
    }
  }

  /**
   * Writes from an address of this JVM.
   *
   * @throws NativeCallException when not all of it could be written
   */
  public void writeFrom(long here, long there, long length) throws NativeCallException {
    check(
        "process_vm_writev",
        there,
        length,
        Libc.LIBRARY.process_vm_writev(
            task, new long[] {here, length}, 1, new long[] {there, length}, 1, 0));
  }

  private void check(String call, long address, long length, long result)
      throws NativeCallException {
    if (result != length) {
      throw Libc.failure(
          "%s of %s bytes at %s of task %s"
              .formatted(call, length, Long.toHexString(address), task),
          result < 0 ? Libc.errno() : Libc.EFAULT);
    }
  }
}
