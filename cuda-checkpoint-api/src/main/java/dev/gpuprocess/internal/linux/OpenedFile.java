package dev.gpuprocess.internal.linux;

import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.internal.proc.ProcFs;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.FileSystemException;
import java.nio.file.Path;
import java.util.Arrays;

/**
 * A file that {@link UntrustedPaths} opened. All methods refer to this file, whatever its path
 * leads to by now. For one thread.
 */
public final class OpenedFile implements AutoCloseable {

  private static final int BUFFER_BYTES = 1 << 16;

  private final Path path;
  private final int descriptor;
  private final FileNode node;
  private boolean closed;

  OpenedFile(Path path, int descriptor, FileNode node) {
    this.path = path;
    this.descriptor = descriptor;
    this.node = node;
  }

  /**
   * Wraps a descriptor that was taken from another process.
   *
   * @param path the name in messages
   * @param descriptor a descriptor of this JVM, closed with this
   */
  public static OpenedFile of(Path path, int descriptor) throws IOException {
    return new OpenedFile(path, descriptor, FileNode.of(descriptor));
  }

  /** Returns the path without symbolic links by which it was opened. */
  public Path path() {
    return path;
  }

  /** Returns its status when it was opened. */
  public FileNode node() {
    return node;
  }

  /** Returns the descriptor, valid until this is closed. */
  public int descriptor() {
    return descriptor;
  }

  /** Returns a path for this JVM that leads to this file until this is closed. */
  public Path self() {
    return ProcFs.descriptor(descriptor);
  }

  /**
   * Reads the whole file.
   *
   * @param most the maximum length in bytes
   * @throws FileSystemException when it is longer, or cannot be read
   */
  public byte[] read(int most) throws IOException {
    byte[] content = new byte[(int) Math.min(most, Math.max(BUFFER_BYTES, node.bytes())) + 1];
    int length = 0;
    while (length <= most) {
      if (length == content.length) {
        content = Arrays.copyOf(content, (int) Math.min(most + 1L, 2L * length));
      }
      byte[] part = new byte[Math.min(BUFFER_BYTES, content.length - length)];
      int count = read(part, length);
      if (count == 0) {
        return Arrays.copyOf(content, length);
      }
      System.arraycopy(part, 0, content, length, count);
      length += count;
    }
    throw new FileSystemException(path.toString(), null, "has more than " + most + " bytes");
  }

  /** Copies the file, at most up to the length that it had when it was opened. */
  public void copyTo(OutputStream to) throws IOException {
    long done = 0;
    int count = -1;
    while (done < node.bytes() && count != 0) {
      byte[] part = new byte[(int) Math.min(BUFFER_BYTES, node.bytes() - done)];
      count = read(part, done);
      to.write(part, 0, count);
      done += count;
    }
  }

  /** Returns whether it has the same content as a stream. */
  public boolean hasContentOf(InputStream other) throws IOException {
    byte[] part = new byte[BUFFER_BYTES];
    long done = 0;
    int count;
    while ((count = read(part, done)) > 0) {
      byte[] expected = other.readNBytes(count);
      if (!Arrays.equals(part, 0, count, expected, 0, expected.length)) {
        return false;
      }
      done += count;
    }
    return other.read() < 0;
  }

  private int read(byte[] part, long offset) throws IOException {
    return Descriptors.read(Libc.LIBRARY, descriptor, path, part, offset);
  }

  /**
   * Replaces the content. The file is never shorter than either content: a process may map it.
   * Holes stay holes.
   */
  public void replace(InputStream content) throws IOException {
    byte[] part = new byte[BUFFER_BYTES];
    long done = 0;
    int count;
    while ((count = content.readNBytes(part, 0, part.length)) > 0) {
      if (!isZero(part, count) || !isZeroAt(done, count)) {
        write(count == part.length ? part : Arrays.copyOf(part, count), done);
      }
      done += count;
    }
    if (Libc.LIBRARY.ftruncate(descriptor, done) != 0) {
      throw Libc.failed(path, "cannot get its length", Libc.errno());
    }
  }

  private static boolean isZero(byte[] part, int length) {
    for (int i = 0; i < length; i++) {
      if (part[i] != 0) {
        return false;
      }
    }
    return true;
  }

  /** Returns whether a part of the file is zero; what is behind its end counts as zero. */
  private boolean isZeroAt(long offset, int length) throws IOException {
    byte[] part = new byte[length];
    return isZero(part, read(part, offset));
  }

  private void write(byte[] part, long offset) throws IOException {
    Descriptors.write(Libc.LIBRARY, descriptor, path, part, offset);
  }

  /**
   * Sets its permission bits.
   *
   * @param mode the bits, without the set-user-ID and set-group-ID bits
   */
  public void setMode(int mode) throws IOException {
    if (Libc.LIBRARY.fchmod(descriptor, mode & 01777) != 0) {
      throw Libc.failed(path, "cannot get its permissions", Libc.errno());
    }
  }

  /** Closes the descriptor. Does nothing the second time. */
  @Override
  public void close() {
    if (!closed) {
      closed = true;
      Descriptors.close(descriptor);
    }
  }
}
