package dev.gpuprocess.internal.image;

import dev.gpuprocess.image.Checksum;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.zip.CRC32C;

/** The checksum of a chunk of an image file, of data that comes in parts. For one thread. */
public abstract class RunningChecksum {

  private RunningChecksum() {}

  /** Starts one. */
  public static RunningChecksum of(Checksum kind) {
    return kind == Checksum.CRC32C ? new Crc() : new Sha();
  }

  /** Adds what is between position and limit. */
  public abstract void add(ByteBuffer data);

  /** The checksum of all that was added, as a manifest has it. To be called once. */
  public abstract String text();

  private static final class Crc extends RunningChecksum {
    private final CRC32C crc = new CRC32C();

    @Override
    public void add(ByteBuffer data) {
      crc.update(data);
    }

    @Override
    public String text() {
      return HexFormat.of().toHexDigits((int) crc.getValue());
    }
  }

  private static final class Sha extends RunningChecksum {
    private final MessageDigest digest = ChunkChecksum.sha256();

    @Override
    public void add(ByteBuffer data) {
      digest.update(data);
    }

    @Override
    public String text() {
      return HexFormat.of().formatHex(digest.digest());
    }
  }
}
