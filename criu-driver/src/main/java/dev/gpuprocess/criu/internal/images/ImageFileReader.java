package dev.gpuprocess.criu.internal.images;

import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.MessageLite;
import com.google.protobuf.Parser;
import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * One image file: magic numbers, then messages, each after its size. {@code inventory.img} has one
 * magic number, all others have two. Never allocates more than the length of the file, nor more
 * than this JVM can afford: a hostile file may have any length.
 */
final class ImageFileReader implements AutoCloseable {

  /** The first magic number of most files. */
  static final int COMMON = 0x54564319;

  /** Messages can take more than ten times as much space in memory as in a file. */
  private static final long MOST_BYTES = Math.max(4 << 20, Runtime.getRuntime().maxMemory() / 64);

  /** The kinds of files that are read, with their magic numbers. */
  enum Kind {
    INVENTORY(0x58313116),
    PSTREE(0x50273030),
    IDS(0x54432030),
    CORE(0x55053847),
    MM(0x57492820),
    PAGEMAP(0x56084025),
    FS(0x51403912),
    FDINFO(0x56213732),
    FILES(0x56303138),
    MEMFD(0x48453499),
    TTY_INFO(0x59453036);

    private final int magic;

    Kind(int magic) {
      this.magic = magic;
    }

    int magic() {
      return magic;
    }
  }

  private final Path file;
  private final DataInputStream in;
  private long left;
  private long read;

  private ImageFileReader(Path file, DataInputStream in, long size) {
    this.file = file;
    this.in = in;
    this.left = size;
  }

  static ImageFileReader open(Path file, Kind kind) throws IOException {
    ImageFileReader image =
        new ImageFileReader(
            file,
            new DataInputStream(new BufferedInputStream(Files.newInputStream(file))),
            Files.size(file));
    try {
      image.requireMagic(kind);
      return image;
    } catch (IOException e) {
      image.close();
      throw e;
    }
  }

  private void requireMagic(Kind kind) throws IOException {
    boolean right = kind == Kind.INVENTORY || number() == COMMON;
    if (!right || number() != kind.magic) {
      throw new BadImageException(file + " is not an image of the kind " + kind);
    }
  }

  private int number() throws IOException {
    if (left < Integer.BYTES) {
      throw cutOff();
    }
    left -= Integer.BYTES;
    return Integer.reverseBytes(in.readInt());
  }

  private BadImageException cutOff() {
    return new BadImageException(file + " is cut off");
  }

  /**
   * Reads the next message.
   *
   * @return empty at the end of the file
   */
  <T extends MessageLite> Optional<T> next(Parser<T> parser) throws IOException {
    if (left == 0) {
      return Optional.empty();
    }
    int size = number();
    if (size < 0 || size > left) {
      throw cutOff();
    }
    read += (long) Integer.BYTES + size;
    if (read > MOST_BYTES) {
      throw new BadImageException(
          "%s has more than the %s MiB that this JVM can read; give it more memory (-Xmx)"
              .formatted(file, MOST_BYTES >> 20));
    }
    byte[] bytes = new byte[size];
    try {
      in.readFully(bytes);
      left -= size;
      return Optional.of(parser.parseFrom(bytes));
    } catch (EOFException e) {
      throw cutOff();
    } catch (InvalidProtocolBufferException e) {
      throw new BadImageException(file + " is altered: " + e.getMessage());
    }
  }

  /** Reads a file that has one message. */
  static <T extends MessageLite> T only(Path file, Kind kind, Parser<T> parser) throws IOException {
    try (ImageFileReader image = open(file, kind)) {
      return image.next(parser).orElseThrow(image::cutOff);
    }
  }

  /** Reads a file of messages of one kind. */
  static <T extends MessageLite> List<T> all(Path file, Kind kind, Parser<T> parser)
      throws IOException {
    try (ImageFileReader image = open(file, kind)) {
      List<T> messages = new ArrayList<>();
      for (Optional<T> next = image.next(parser); next.isPresent(); next = image.next(parser)) {
        messages.add(next.get());
      }
      return messages;
    }
  }

  @Override
  public void close() throws IOException {
    in.close();
  }
}
