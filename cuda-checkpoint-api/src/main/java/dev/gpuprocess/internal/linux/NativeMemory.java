package dev.gpuprocess.internal.linux;

import java.lang.ref.Reference;
import java.util.function.LongUnaryOperator;
import jnr.ffi.Memory;
import jnr.ffi.Pointer;
import jnr.ffi.Runtime;

/**
 * Memory outside of the Java heap, for calls that take addresses. It is freed when this object is
 * no longer reachable, which it may be at the begin of its last call: JNR keeps neither the memory
 * of a pointer while it copies, nor that of an argument while a function runs. So each method keeps
 * this object reachable to its end. Not safe for use by several threads.
 */
public final class NativeMemory {

  private final Pointer memory;
  private final int bytes;

  private NativeMemory(Pointer memory, int bytes) {
    this.memory = memory;
    this.bytes = bytes;
  }

  /** Allocates zeroed memory. */
  public static NativeMemory of(int bytes) {
    NativeLibraries.prepare();
    return new NativeMemory(Memory.allocateDirect(Runtime.getSystemRuntime(), bytes, true), bytes);
  }

  /** Returns the address, which is valid while this object is reachable: see {@link #with}. */
  public long address() {
    return memory.address();
  }

  /** Returns the size in bytes. */
  public int bytes() {
    return bytes;
  }

  /** Reads a part. */
  public byte[] read(int offset, int length) {
    byte[] copy = new byte[length];
    read(offset, copy, 0, length);
    return copy;
  }

  /** Reads a part into an array. */
  void read(int offset, byte[] to, int at, int length) {
    use(() -> memory.get(offset, to, at, length));
  }

  /** Writes a part. */
  public void write(int offset, byte[] content) {
    write(offset, content, 0, content.length);
  }

  /** Writes a part of an array. */
  void write(int offset, byte[] from, int at, int length) {
    use(() -> memory.put(offset, from, at, length));
  }

  /** Reads a {@code long}. */
  public long getLong(int offset) {
    return with(address -> memory.getLong(offset));
  }

  /** Reads an {@code int}. */
  public int getInt(int offset) {
    return (int) with(address -> memory.getInt(offset));
  }

  /** Writes an {@code int}. */
  public void putInt(int offset, int value) {
    use(() -> memory.putInt(offset, value));
  }

  /** Writes a {@code long}. */
  public void putLong(int offset, long value) {
    use(() -> memory.putLong(offset, value));
  }

  private void use(Runnable use) {
    try {
      use.run();
    } finally {
      Reference.reachabilityFence(this);
    }
  }

  /**
   * Makes a call with the address and keeps the memory reachable until it returns.
   *
   * @return the result of the call
   */
  public long with(LongUnaryOperator call) {
    try {
      return call.applyAsLong(address());
    } finally {
      Reference.reachabilityFence(this);
    }
  }
}
