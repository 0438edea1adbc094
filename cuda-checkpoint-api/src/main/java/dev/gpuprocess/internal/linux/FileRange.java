package dev.gpuprocess.internal.linux;

/**
 * A part of a file. Immutable.
 *
 * @param from the offset of its first byte
 * @param to the offset after its last byte
 */
public record FileRange(long from, long to) {

  /** Returns the size in bytes. */
  public long bytes() {
    return to - from;
  }

  /** Returns whether all bytes between two offsets are in it. */
  public boolean contains(long begin, long end) {
    return from <= begin && end <= to;
  }
}
