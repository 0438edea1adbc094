package dev.gpuprocess.internal.text;

import java.net.URI;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.Arrays;

/**
 * Paths by their bytes. A name is bytes to the kernel; the JDK makes text of them with the charset
 * of the locale, and {@link Path#of(String, String...)} refuses what that charset lacks: in the
 * POSIX locale everything that is not ASCII. What is read in {@code /proc}, in a journal or in an
 * image goes through here.
 */
public final class NativePath {

  private static final Charset LOCALE = localeCharset();

  private NativePath() {}

  /** The path of a name that was read as UTF-8, whatever the locale. */
  public static Path of(String name) {
    return isAscii(name) ? Path.of(name) : of(name.getBytes(StandardCharsets.UTF_8));
  }

  /** The path of a name as the kernel has it. */
  public static Path of(byte[] name) {
    boolean absolute = name.length > 0 && name[0] == '/';
    StringBuilder uri = new StringBuilder(absolute ? "file://" : "file:///");
    for (byte each : name) {
      if (each == '/') {
        uri.append('/');
      } else {
        uri.append('%')
            .append(Character.forDigit(each >> 4 & 0xf, 16))
            .append(Character.forDigit(each & 0xf, 16));
      }
    }
    // A URI carries bytes, and the JDK takes them as they are.
    Path path = Path.of(URI.create(uri.toString()));
    return absolute ? path : path.getRoot().relativize(path);
  }

  /**
   * The name as the kernel has it; of a relative path whose text is not ASCII, the absolute one.
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

  /** The name as C functions take it, with a zero at its end. */
  public static byte[] cString(Path path) {
    byte[] name = bytes(path);
    return Arrays.copyOf(name, name.length + 1);
  }

  /** The name, read as UTF-8: what {@link #of(String)} takes, and what other programs are told. */
  public static String text(Path path) {
    return new String(bytes(path), StandardCharsets.UTF_8);
  }

  /** Whether a path can be made again from its text. */
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
