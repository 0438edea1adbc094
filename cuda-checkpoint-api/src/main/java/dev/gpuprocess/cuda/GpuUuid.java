package dev.gpuprocess.cuda;

import java.io.Serializable;
import java.util.HexFormat;
import java.util.Locale;
import java.util.regex.Pattern;

/**
 * The identity of a GPU, written as {@code nvidia-smi -L} writes it: {@code
 * GPU-8f6d2a10-3c1b-4e7f-9a55-0123456789ab}.
 *
 * @param text the canonical form, lower case after {@code GPU-}
 */
public record GpuUuid(String text) implements Comparable<GpuUuid>, Serializable {

  private static final Pattern FORM =
      Pattern.compile("GPU-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}");

  /**
   * Checks the form.
   *
   * @throws IllegalArgumentException when the text is not a GPU's UUID
   */
  public GpuUuid {
    text = text.startsWith("GPU-") ? "GPU-" + text.substring(4).toLowerCase(Locale.ROOT) : text;
    if (!FORM.matcher(text).matches()) {
      throw new IllegalArgumentException(
          "'" + text + "' is not a GPU UUID; nvidia-smi -L prints them in the form GPU-8-4-4-4-12");
    }
  }

  /**
   * Reads a UUID in the form of {@code nvidia-smi -L}.
   *
   * @param text with its {@code GPU-} prefix
   * @return the UUID
   * @throws IllegalArgumentException when the text has another form
   */
  public static GpuUuid of(String text) {
    return new GpuUuid(text);
  }

  /**
   * The driver's form.
   *
   * @return 16 bytes
   */
  public byte[] bytes() {
    return HexFormat.of().parseHex(text.substring(4).replace("-", ""));
  }

  @Override
  public int compareTo(GpuUuid other) {
    return text.compareTo(other.text);
  }

  @Override
  public String toString() {
    return text;
  }
}
