package dev.gpuprocess.internal.linux;

import dev.gpuprocess.internal.proc.ProcFs;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;

/** A pipe from a child to this JVM. */
public final class OutputPipe implements AutoCloseable {

  private final int write;
  private final InputStream read;
  private boolean given;

  private OutputPipe(InputStream read, int write) {
    this.read = read;
    this.write = write;
  }

  /** A stream that is only read: for a stream of a file, the JDK also queries the length. */
  private static final class PipeStream extends InputStream {

    private final InputStream file;

    private PipeStream(InputStream file) {
      this.file = file;
    }

    @Override
    public int read() throws IOException {
      return file.read();
    }

    @Override
    public int read(byte[] into, int offset, int length) throws IOException {
      return file.read(into, offset, length);
    }

    @Override
    public int available() throws IOException {
      return file.available();
    }

    @Override
    public void close() throws IOException {
      file.close();
    }
  }

  /** Makes a pipe; both ends are closed at exec. */
  public static OutputPipe make() throws IOException {
    int[] pair = Libc.pipe();
    try {
      return new OutputPipe(
          new PipeStream(new FileInputStream(ProcFs.descriptor(pair[0]).toFile())), pair[1]);
    } catch (IOException e) {
      Libc.close(pair[1]);
      throw e;
    } finally {
      Libc.close(pair[0]);
    }
  }

  /** Returns the end for the child. */
  public int end() {
    return write;
  }

  /** Returns the stream, which the caller closes. */
  public InputStream give() {
    given = true;
    return read;
  }

  /** Closes the child's end here, and the stream unless it was given. */
  @Override
  public void close() throws IOException {
    Libc.close(write);
    if (!given) {
      read.close();
    }
  }
}
