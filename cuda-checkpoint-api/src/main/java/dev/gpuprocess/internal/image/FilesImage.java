package dev.gpuprocess.internal.image;

import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static java.nio.charset.StandardCharsets.UTF_8;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** CRIU's list of the files that the dumped processes had open or mapped. */
public final class FilesImage {

  private static final String NAME = "files.img";

  private FilesImage() {}

  /** Returns whether CRIU recorded a file of this path. */
  public static boolean contains(Path images, String path) {
    try {
      return Files.readString(images.resolve(NAME), ISO_8859_1).contains(field(path));
    } catch (IOException e) {
      throw new ImageException(
          ImageException.Reason.UNREADABLE,
          "%s of CRIU cannot be read: %s".formatted(NAME, e),
          Failure.of("dump", 0),
          e);
    }
  }

  /** Encodes a string as protobuf does: the length, then the bytes. One character is one byte. */
  private static String field(String text) {
    String name = new String(text.getBytes(UTF_8), ISO_8859_1);
    StringBuilder field = new StringBuilder();
    int left = name.length();
    while (left >= 0x80) {
      field.append((char) ((left & 0x7f) | 0x80));
      left >>>= 7;
    }
    return field.append((char) left).append(name).toString();
  }
}
