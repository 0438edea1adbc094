package dev.gpuprocess.internal.wire;

import dev.gpuprocess.image.ImageKey;
import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.util.zip.CRC32C;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.jspecify.annotations.Nullable;

/**
 * The checks at the end of the messages in one direction. With a key nobody without it can make,
 * change, repeat, leave out or reorder one; without a key it is a checksum against accidents, over
 * the same content. For one thread at a time.
 */
final class FrameCheck {

  private static final String ALGORITHM = "HmacSHA256";
  private static final int CRC_BYTES = 4;
  private static final int HEADER_BYTES = 13;

  private final byte[] session;
  private final @Nullable Mac mac;
  private long sequence;

  /**
   * The checks of one direction.
   *
   * @param direction who speaks
   * @param session what both ends have contributed to make this connection unlike any other
   */
  FrameCheck(String direction, byte[] session, @Nullable ImageKey key) {
    ByteArrayOutputStream all = new ByteArrayOutputStream();
    all.writeBytes(("gpuprocess migration, " + direction).getBytes(StandardCharsets.UTF_8));
    all.writeBytes(session);
    this.session = all.toByteArray();
    this.mac = key == null ? null : mac(key.code(this.session));
  }

  private static Mac mac(String secret) {
    try {
      Mac mac = Mac.getInstance(ALGORITHM);
      mac.init(new SecretKeySpec(secret.getBytes(StandardCharsets.US_ASCII), ALGORITHM));
      return mac;
    } catch (GeneralSecurityException e) {
      throw new AssertionError("every Java has " + ALGORITHM, e);
    }
  }

  /** How long a check is. */
  int bytes() {
    return mac == null ? CRC_BYTES : mac.getMacLength();
  }

  /** The check of the next message. */
  byte[] next(Kind kind, byte[] content, int count) {
    byte[] header =
        ByteBuffer.allocate(HEADER_BYTES)
            .putLong(sequence++)
            .put(kind.code())
            .putInt(count)
            .array();
    if (mac != null) {
      mac.update(header);
      mac.update(content, 0, count);
      return mac.doFinal();
    }
    CRC32C sum = new CRC32C();
    sum.update(session);
    sum.update(header);
    sum.update(content, 0, count);
    return ByteBuffer.allocate(CRC_BYTES).putInt((int) sum.getValue()).array();
  }
}
