package dev.gpuprocess.internal.manifest;

/** The checksum of the files of an image. */
public enum Checksum {
  /** Detects accidental damage, as fast as memory can be read. */
  CRC32C(8),
  /** Detects deliberate changes too; several times slower. Used for images with a key. */
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
