package dev.gpuprocess.internal.wire;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.regex.Pattern;

/** Files from one host to the other, into one directory, by name. */
public final class FileTransfer {

  private static final int PIECE_BYTES = 256 << 10;

  /** Names of files that CRIU or this library writes; none of them leads out of a directory. */
  private static final Pattern NAME = Pattern.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,200}");

  private final Wire wire;
  private final long most;
  private long bytes;

  /**
   * Prepares.
   *
   * @param most how much may come in all, in bytes
   */
  public FileTransfer(Wire wire, long most) {
    this.wire = wire;
    this.most = most;
  }

  /** Sends a file. */
  public void send(Path file) throws IOException {
    long size = Files.size(file);
    ByteArrayOutputStream head = new ByteArrayOutputStream();
    DataOutputStream out = new DataOutputStream(head);
    out.writeUTF(String.valueOf(file.getFileName()));
    out.writeLong(size);
    wire.send(Kind.FILE, head.toByteArray());
    byte[] buffer = new byte[PIECE_BYTES];
    long left = size;
    try (InputStream in = Files.newInputStream(file, LinkOption.NOFOLLOW_LINKS)) {
      while (left > 0) {
        int count = in.read(buffer, 0, (int) Math.min(left, buffer.length));
        if (count < 0) {
          throw new IOException(file + " became shorter while it was sent");
        }
        wire.send(Kind.DATA, buffer, count);
        left -= count;
      }
    }
    bytes += size;
  }

  /**
   * Receives a file, which must be new.
   *
   * @param head its announcement
   */
  public void receive(Message head, Path directory) throws IOException {
    DataInputStream in = new DataInputStream(new ByteArrayInputStream(head.content()));
    String name = in.readUTF();
    long size = in.readLong();
    if (!NAME.matcher(name).matches()) {
      throw new IOException("it sent a file whose name no file of an image has");
    }
    if (size < 0 || size > most - bytes) {
      throw new IOException("more came than was offered, which was %s bytes".formatted(most));
    }
    try (OutputStream file =
        Files.newOutputStream(
            directory.resolve(name), StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
      for (long left = size; left > 0; ) {
        byte[] piece = wire.receive(Kind.DATA).content();
        if (piece.length == 0 || piece.length > left) {
          throw new IOException("%s is not as long as it was announced".formatted(name));
        }
        file.write(piece);
        left -= piece.length;
      }
    }
    bytes += size;
  }
}
