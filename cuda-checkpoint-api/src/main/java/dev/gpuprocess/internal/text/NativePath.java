package dev.gpuprocess.internal.text;

import java.net.URI;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HexFormat;

/**
 * Converts between paths and the bytes of their names. To the kernel a name is bytes; the JDK
 * decodes them with the charset of the locale, and {@link Path#of(String, String...)} refuses
 * characters that the charset lacks: in the POSIX locale everything but ASCII. Names read from
 * {@code /proc}, a journal or an image are converted here.
 */
public final class NativePath {

  private static final Charset LOCALE = localeCharset();

  private NativePath() {}

  /** Returns the path with a name that was decoded as UTF-8, regardless of the locale. */
  public static Path of(String name) {
    return isAscii(name) ? Path.of(name) : of(name.getBytes(StandardCharsets.UTF_8));
  }

  /** Returns the path with a name of these bytes. */
  public static Path of(byte[] name) {
    boolean absolute = name.length > 0 && name[0] == '/';
    StringBuilder uri = new StringBuilder(absolute ? "file://" : "file:///");
    for (byte each : name) {
      if (each == '/') {
        uri.append('/');
      } else {
        uri.append('%').append(HexFormat.of().toHexDigits(each));
      }
    }
    // A URI carries bytes, which the JDK keeps unchanged.
    Path path = Path.of(URI.create(uri.toString()));
    return absolute ? path : path.getRoot().relativize(path);
  }

  /**
   * Returns the bytes of the name; for a relative path whose text is not ASCII, those of the
   * absolute path.
   */
  public static byte[] bytes(Path path) {
    String text = path.toString();
    if (isAscii(text)) {
      return text.getBytes(StandardCharsets.US_ASCII);
    }
    if (survivesAsText(path)) {
      return text.getBytes(LOCALE);
    }
    String uri = path.toUri().getRawPath();
    byte[] bytes = new byte[uri.length()];
    int count = 0;
    for (int i = 0; i < uri.length(); i++) {
      char next = uri.charAt(i);
      if (next == '%') {
        bytes[count++] = (byte) Integer.parseInt(uri, i + 1, i + 3, 16);
        i += 2;
      } else {
        bytes[count++] = (byte) next;
      }
    }
    // The JDK marks directories with a slash at the end.
    return Arrays.copyOf(bytes, count > 1 && bytes[count - 1] == '/' ? count - 1 : count);
  }

  /** Returns the bytes of the name with a zero at the end, for C functions. */
  public static byte[] cString(Path path) {
    byte[] name = bytes(path);
    return Arrays.copyOf(name, name.length + 1);
  }

  /** Encodes a text with the charset of the locale, or as UTF-8 if that lacks a character. */
  public static byte[] encode(String text) {
    return text.getBytes(LOCALE.newEncoder().canEncode(text) ? LOCALE : StandardCharsets.UTF_8);
  }

  /** Returns the name decoded as UTF-8, as {@link #of(String)} and other programs expect it. */
  public static String text(Path path) {
    return new String(bytes(path), StandardCharsets.UTF_8);
  }

  /** Returns the last name of an absolute path, decoded as UTF-8. */
  public static String name(Path path) {
    String text = text(path);
    return text.substring(text.lastIndexOf('/') + 1);
  }

  /** Returns whether {@link Path#of} returns the same path for its text. */
  public static boolean survivesAsText(Path path) {
    try {
      return Path.of(path.toString()).equals(path);
    } catch (InvalidPathException e) {
      return false;
    }
  }

  private static boolean isAscii(String text) {
    return text.chars().allMatch(each -> each < 0x80);
  }

  private static Charset localeCharset() {
    String name = System.getProperty("sun.jnu.encoding", "UTF-8");
    return Charset.isSupported(name) ? Charset.forName(name) : StandardCharsets.UTF_8;
  }
}
