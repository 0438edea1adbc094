package dev.gpuprocess.internal.linux;

import java.lang.ref.Reference;
import java.util.function.LongUnaryOperator;
import jnr.ffi.Memory;
import jnr.ffi.Pointer;
import jnr.ffi.Runtime;

/**
 * Memory outside of the Java heap, for calls that are given addresses. It is freed when nothing
 * refers to this object any more. Not for use by several threads.
 */
public final class NativeMemory {

  private final Pointer memory;
  private final int bytes;

  private NativeMemory(Pointer memory, int bytes) {
    this.memory = memory;
    this.bytes = bytes;
  }

  /** Zeroed memory. */
  public static NativeMemory of(int bytes) {
    NativeLibraries.prepare();
    return new NativeMemory(Memory.allocateDirect(Runtime.getSystemRuntime(), bytes, true), bytes);
  }

  /** Where it is, as long as this object is reachable: see {@link #with}. */
  public long address() {
    return memory.address();
  }

  /** How large it is. */
  public int bytes() {
    return bytes;
  }

  /** Copies some of it. */
  public byte[] read(int offset, int length) {
    byte[] copy = new byte[length];
    memory.get(offset, copy, 0, length);
    return copy;
  }

  /** Copies some of it into an array. */
  void read(int offset, byte[] to, int at, int length) {
    memory.get(offset, to, at, length);
  }

  /** Changes some of it. */
  public void write(int offset, byte[] content) {
    write(offset, content, 0, content.length);
  }

  /** The same with a part of an array. */
  void write(int offset, byte[] from, int at, int length) {
    memory.put(offset, from, at, length);
  }

  /** A {@code long} in it. */
  public long getLong(int offset) {
    return memory.getLong(offset);
  }

  /** An {@code int} in it. */
  public int getInt(int offset) {
    return memory.getInt(offset);
  }

  /** Changes an {@code int}. */
  void putInt(int offset, int value) {
    memory.putInt(offset, value);
  }

  /** Changes a {@code long}. */
  public void putLong(int offset, long value) {
    memory.putLong(offset, value);
  }

  /**
   * Makes a call that is given the address. The memory is there until it returns.
   *
   * @return what the call returns
   */
  public long with(LongUnaryOperator call) {
    try {
      return call.applyAsLong(address());
    } finally {
      Reference.reachabilityFence(this);
    }
  }
}
