package dev.gpuprocess.internal.dump;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** Looks for a name among those of the files that CRIU recorded. */
final class RecordedName {

  /** CRIU's list of files; in images of before 3.x, of regular files. */
  private static final String LIST = "files.img";

  private RecordedName() {}

  /** Whether CRIU recorded a file of this path. */
  static boolean isIn(Path images, String path) {
    byte[] name = path.getBytes(StandardCharsets.UTF_8);
    try {
      return contains(Files.readAllBytes(images.resolve(LIST)), field(name));
    } catch (IOException e) {
      throw new ImageException(
          ImageException.Reason.UNREADABLE,
          "%s of CRIU cannot be read: %s".formatted(LIST, e),
          Failure.of("dump", 0),
          e);
    }
  }

  /**
   * As protobuf writes a string: its length before it. The number of the field is CRIU's affair.
   */
  private static byte[] field(byte[] name) {
    List<Byte> length = new ArrayList<>();
    int left = name.length;
    while (left >= 0x80) {
      length.add((byte) (left | 0x80));
      left >>>= 7;
    }
    length.add((byte) left);
    byte[] field = new byte[length.size() + name.length];
    for (int i = 0; i < length.size(); i++) {
      field[i] = length.get(i);
    }
    System.arraycopy(name, 0, field, length.size(), name.length);
    return field;
  }

  private static boolean contains(byte[] all, byte[] part) {
    for (int at = 0; at <= all.length - part.length; at++) {
      if (all[at] == part[0] && startsWith(all, at, part)) {
        return true;
      }
    }
    return false;
  }

  private static boolean startsWith(byte[] all, int at, byte[] part) {
    for (int i = 0; i < part.length; i++) {
      if (all[at + i] != part[i]) {
        return false;
      }
    }
    return true;
  }
}
