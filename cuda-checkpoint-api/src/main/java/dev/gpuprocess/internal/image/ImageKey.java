package dev.gpuprocess.internal.image;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.linux.Ownership;
import dev.gpuprocess.internal.linux.PinnedDirectory;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.util.HexFormat;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.jspecify.annotations.Nullable;

/** A secret to sign images with. Immutable; may be shared between threads. */
public final class ImageKey {

  /** The length of the shortest key, in bytes. */
  public static final int LEAST_BYTES = 32;

  private static final int MOST_BYTES = 4096;
  private static final String ALGORITHM = "HmacSHA256";

  private final SecretKeySpec key;

  private ImageKey(byte[] secret) {
    key = new SecretKeySpec(secret, ALGORITHM);
  }

  /**
   * Reads a key.
   *
   * @param file 32 to 4096 bytes that only root or the user of this JVM can read, in a directory
   *     that only they can write to
   * @return the key
   * @throws ImageException with reason NOT_TRUSTED when others can read or replace the file, or its
   *     length is wrong, or it cannot be read
   */
  public static ImageKey read(Path file) {
    Path path = file.toAbsolutePath();
    Path parent = path.getParent();
    if (parent == null) {
      throw refused(path, "is not a file", null);
    }
    try (PinnedDirectory directory = PinnedDirectory.open(parent)) {
      Path key = directory.path().resolve(path.getFileName());
      if (!Files.isRegularFile(key, LinkOption.NOFOLLOW_LINKS)) {
        throw refused(path, "is not a regular file: name the file itself, not a link to it", null);
      }
      if (!Ownership.of(directory).isOurs() || !Ownership.of(key).isSecret()) {
        throw refused(
            path,
            "can be read or replaced by others: make a new key with mode 0600 in a directory that only root can write to",
            null);
      }
      long bytes = Files.size(key);
      if (bytes < LEAST_BYTES || bytes > MOST_BYTES) {
        throw refused(
            path,
            "has %s bytes, but a key has %s to %s".formatted(bytes, LEAST_BYTES, MOST_BYTES),
            null);
      }
      return new ImageKey(DurableFiles.read(key, MOST_BYTES));
    } catch (IOException e) {
      throw refused(path, "cannot be read: " + e, e);
    }
  }

  private static ImageException refused(Path file, String why, @Nullable Throwable cause) {
    return new ImageException(
        ImageException.Reason.NOT_TRUSTED,
        "the image key " + file + " " + why,
        Failure.of("read key", 0),
        cause);
  }

  /**
   * Computes the authentication code of a text (HMAC-SHA256).
   *
   * @param text any bytes
   * @return lower case hexadecimal
   */
  public String code(byte[] text) {
    try {
      Mac mac = Mac.getInstance(ALGORITHM);
      mac.init(key);
      return HexFormat.of().formatHex(mac.doFinal(text));
    } catch (GeneralSecurityException e) {
      throw new AssertionError("every Java has " + ALGORITHM, e);
    }
  }

  /** Does not reveal the secret. */
  @Override
  public String toString() {
    return "image key";
  }
}
