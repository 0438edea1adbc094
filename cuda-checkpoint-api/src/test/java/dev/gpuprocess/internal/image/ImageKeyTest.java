package dev.gpuprocess.internal.image;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.error.ImageException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@Tag("jdk")
class ImageKeyTest {

  private static final byte[] TEXT = "text".getBytes(StandardCharsets.US_ASCII);

  private static final String CODE =
      "8d3a9f54db4f3f1e3addef3fc62a0359d0d9d2a87c07cf465284062fded2baa2";

  private Path root;
  private Path file;

  @BeforeEach
  void makeKey(@TempDir Path directory) throws IOException {
    root = directory;
    file = root.resolve("image.key");
    write("k".repeat(32));
  }

  private void write(String key) throws IOException {
    Files.writeString(file, key);
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-------"));
  }

  private void refused(String reason) {
    ImageException e =
        assertReason(
            ImageException.class, ImageException.Reason.NOT_TRUSTED, () -> ImageKey.read(file));
    TestImages.says(e, reason);
    TestImages.says(e, file.toString());
    TestImages.saysNot(e, "kkk");
  }

  /** The value is Python's: {@code hmac.new(b'k' * 32, b'text', 'sha256').hexdigest()}. */
  @Test
  void theCodeIsHmacSha256() throws IOException {
    ImageKey key = ImageKey.read(file);
    assertEquals(CODE, key.code(TEXT));
    write("l".repeat(32));
    assertNotEquals(key.code(TEXT), ImageKey.read(file).code(TEXT));
    assertEquals(CODE, key.code(TEXT), "a key that was read stays what it is");
  }

  @Test
  void tellsNothingOfTheSecret() {
    assertEquals("image key", ImageKey.read(file).toString());
  }

  @Test
  void aMissingFileIsRefused() throws IOException {
    Files.delete(file);
    refused("is not a regular file");
  }

  @Test
  void aMissingDirectoryIsRefused() {
    file = root.resolve("missing/key");
    refused("cannot be read");
  }

  @ParameterizedTest
  @ValueSource(strings = {"rw-r-----", "rw----r--", "rw--w----", "rw-----w-", "rwxrwxrwx"})
  void aKeyThatOthersSeeIsRefused(String mode) throws IOException {
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString(mode));
    refused("can be read or replaced by others");
  }

  @Test
  @RequiresRoot("gives files away")
  void aKeyOfSomebodyElseIsRefused() throws IOException {
    Files.setAttribute(file, "unix:uid", 12345);
    refused("can be read or replaced by others");
  }

  @Test
  void aDirectoryWhereOthersWriteIsRefused() throws IOException {
    Files.setPosixFilePermissions(root, PosixFilePermissions.fromString("rwxrwxrwx"));
    refused("can be read or replaced by others");
  }

  @Test
  void aLinkIsRefused() throws IOException {
    Path link = Files.createSymbolicLink(root.resolve("link"), file);
    file = link;
    refused("is not a regular file");
  }

  @Test
  void aDirectoryIsRefused() throws IOException {
    file = Files.createDirectory(root.resolve("directory"));
    refused("is not a regular file");
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 31, 4097})
  void keysHaveASize(int bytes) throws IOException {
    write("k".repeat(bytes));
    refused("has %d bytes".formatted(bytes));
  }

  @ParameterizedTest
  @ValueSource(ints = {32, 4096})
  void keysOfTheSmallestAndLargestSizeAreKeys(int bytes) throws IOException {
    write("k".repeat(bytes));
    assertEquals(64, ImageKey.read(file).code(TEXT).length());
  }
}
