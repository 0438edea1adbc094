package dev.gpuprocess.internal.image;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** CRIU's list of the files that the dumped processes had open or mapped. */
public final class FilesImage {

  private static final String NAME = "files.img";

  private FilesImage() {}

  /** Returns whether CRIU recorded a file of this path. */
  public static boolean contains(Path images, String path) {
    byte[] name = path.getBytes(StandardCharsets.UTF_8);
    try {
      return contains(Files.readAllBytes(images.resolve(NAME)), field(name));
    } catch (IOException e) {
      throw new ImageException(
          ImageException.Reason.UNREADABLE,
          "%s of CRIU cannot be read: %s".formatted(NAME, e),
          Failure.of("dump", 0),
          e);
    }
  }

  /** Encodes a string as protobuf does: the length, then the bytes. */
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
