package dev.gpuprocess.image;

/** How the files of an image are summed. */
public enum Checksum {
  /** Finds every accident, as fast as memory can be read. */
  CRC32C(8),
  /** Finds what was altered on purpose too; several times slower. Images with a key have it. */
  SHA256(64);

  private final int digits;

  Checksum(int digits) {
    this.digits = digits;
  }

  /** How many hexadecimal digits a sum has. */
  int digits() {
    return digits;
  }
}
