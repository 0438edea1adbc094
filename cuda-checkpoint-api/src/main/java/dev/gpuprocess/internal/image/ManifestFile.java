package dev.gpuprocess.internal.image;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonParseException;
import com.google.gson.Strictness;
import com.google.gson.TypeAdapter;
import com.google.gson.stream.JsonReader;
import com.google.gson.stream.JsonWriter;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.manifest.Checksum;
import dev.gpuprocess.internal.manifest.ManifestData;
import dev.gpuprocess.internal.text.Printable;
import java.io.IOException;
import java.io.StringReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.DateTimeException;
import java.time.Instant;
import java.util.Arrays;
import java.util.HexFormat;
import org.jspecify.annotations.Nullable;

/**
 * Reads and writes {@code manifest.json}; {@code manifest.sha256} beside it, without which a
 * flipped bit in the manifest would go unnoticed; and {@code manifest.hmac} of images with a key.
 *
 * <p>Each manifest has exactly one text, and no other text is accepted. This excludes repeated,
 * missing, unknown and differently written names. Every format begins with {@code formatVersion}.
 */
final class ManifestFile {

  static final String NAME = "manifest.json";
  static final String SUM_NAME = "manifest.sha256";
  static final String CODE_NAME = "manifest.hmac";

  /** Far above the size of any real manifest, and small enough to be read into memory. */
  static final int MAX_BYTES = 16 << 20;

  private static final int MAX_REASON = 200;

  private static final Gson GSON =
      new GsonBuilder()
          .registerTypeAdapter(Instant.class, new InstantText().nullSafe())
          .setStrictness(Strictness.STRICT)
          .disableHtmlEscaping()
          .setPrettyPrinting()
          .create();

  private ManifestFile() {}

  static byte[] write(ManifestData manifest) {
    return (GSON.toJson(manifest) + "\n").getBytes(StandardCharsets.UTF_8);
  }

  static byte[] sum(byte[] manifest) {
    return line(HexFormat.of().formatHex(ChunkChecksum.sha256().digest(manifest)));
  }

  static byte[] code(byte[] manifest, ImageKey key) {
    return line(key.code(manifest));
  }

  private static byte[] line(String text) {
    return (text + "\n").getBytes(StandardCharsets.US_ASCII);
  }

  /**
   * Reads a manifest that only this class could have written.
   *
   * @param file named in exceptions
   * @param code null when the image has no code
   * @param key null when no key is required
   */
  static ManifestData read(
      Path file, byte[] content, byte[] sum, byte @Nullable [] code, @Nullable ImageKey key) {
    if (content.length > MAX_BYTES) {
      throw corrupt(file, "is too large", null);
    }
    if (!MessageDigest.isEqual(sum, sum(content))) {
      throw corrupt(file, "does not match " + SUM_NAME, null);
    }
    if (key != null) {
      requireCode(file, content, code, key);
    }
    ManifestData manifest = parse(file, content);
    if (key != null
        && manifest.files().stream().anyMatch(each -> each.checksum() != Checksum.SHA256)) {
      throw untrusted(file, "has checksums that can be forged");
    }
    return manifest;
  }

  private static void requireCode(Path file, byte[] content, byte @Nullable [] code, ImageKey key) {
    if (code == null) {
      throw untrusted(file, "has no " + CODE_NAME + " beside it: it was made without a key");
    }
    if (!MessageDigest.isEqual(code, code(content, key))) {
      throw untrusted(file, "was altered, or was made with another key");
    }
  }

  private static ManifestData parse(Path file, byte[] content) {
    try {
      String text = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(content)).toString();
      requireFormat(file, text);
      ManifestData manifest = GSON.fromJson(text, ManifestData.class);
      if (!Arrays.equals(write(manifest), content)) {
        throw corrupt(file, "is not written as this version writes it", null);
      }
      return manifest;
    } catch (ImageException e) {
      throw e;
    } catch (IOException e) {
      throw corrupt(file, "is not JSON", e);
    } catch (RuntimeException e) {
      // Gson wraps what the records' constructors refuse in exceptions of several types.
      throw corrupt(file, "is not a manifest: " + reason(e), e);
    }
  }

  private static void requireFormat(Path file, String text) throws IOException {
    JsonReader json = new JsonReader(new StringReader(text));
    json.setStrictness(Strictness.STRICT);
    json.beginObject();
    if (!json.hasNext() || !json.nextName().equals("formatVersion")) {
      throw corrupt(file, "does not begin with its format version", null);
    }
    int format = json.nextInt();
    if (format < ManifestData.FORMAT || format > ManifestData.FORMAT_WITH_PLUGIN) {
      throw new ImageException(
          ImageException.Reason.FORMAT,
          "%s has format %s and this version reads formats %s to %s: use the version that wrote it"
              .formatted(file, format, ManifestData.FORMAT, ManifestData.FORMAT_WITH_PLUGIN),
          Failure.of("open", 0));
    }
  }

  /** The part of an error that an operator can use, escaped because the manifest may be hostile. */
  private static String reason(Throwable e) {
    Throwable root = e;
    while (root.getCause() != null) {
      root = root.getCause();
    }
    String text = String.valueOf(root.getMessage());
    if (root instanceof NullPointerException) {
      return root.getMessage() == null ? "a value is missing" : text + " is missing";
    }
    return Printable.of(text, MAX_REASON);
  }

  private static ImageException corrupt(Path file, String why, @Nullable Throwable cause) {
    return new ImageException(
        ImageException.Reason.CORRUPT,
        file + " " + why + ": it was altered; use another copy of the image",
        Failure.of("open", 0),
        cause);
  }

  private static ImageException untrusted(Path file, String why) {
    return new ImageException(
        ImageException.Reason.NOT_TRUSTED,
        file + " " + why + ": check the origin of the image",
        Failure.of("open", 0));
  }

  /** Instants as ISO 8601 text. */
  private static final class InstantText extends TypeAdapter<Instant> {
    @Override
    public void write(JsonWriter out, Instant value) throws IOException {
      out.value(value.toString());
    }

    @Override
    public Instant read(JsonReader in) throws IOException {
      try {
        return Instant.parse(in.nextString());
      } catch (DateTimeException e) {
        throw new JsonParseException(e);
      }
    }
  }
}
