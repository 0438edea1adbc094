package dev.gpuprocess.criu.internal.linux;

import java.nio.charset.StandardCharsets;

/** Keeps the last bytes of an output of any length. */
public final class TailBuffer {

  private final byte[] ring;
  private long written;

  public TailBuffer(int limit) {
    this.ring = new byte[limit];
  }

  public void add(byte[] bytes, int count) {
    for (int i = Math.max(0, count - ring.length); i < count; i++) {
      ring[(int) ((written + i) % ring.length)] = bytes[i];
    }
    written += count;
  }

  public String text() {
    int kept = (int) Math.min(written, ring.length);
    byte[] bytes = new byte[kept];
    for (int i = 0; i < kept; i++) {
      bytes[i] = ring[(int) ((written - kept + i) % ring.length)];
    }
    return new String(bytes, StandardCharsets.UTF_8);
  }
}
