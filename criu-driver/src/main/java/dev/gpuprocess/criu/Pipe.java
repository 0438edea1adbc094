package dev.gpuprocess.criu;

import static dev.gpuprocess.criu.LibC.check;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/** A pipe, which others reach by its numbers in {@code /proc} of this JVM. For one thread. */
final class Pipe implements AutoCloseable {

  private int reading;
  private int writing;

  private Pipe(int reading, int writing) {
    this.reading = reading;
    this.writing = writing;
  }

  static Pipe open() throws NativeCallException {
    int[] ends = {-1, -1};
    check(LibC.functions().pipe2(ends, LibC.CLOEXEC), "pipe2");
    return new Pipe(ends[0], ends[1]);
  }

  int reading() {
    return reading;
  }

  int writing() {
    return writing;
  }

  /** Such as {@code pipe:[4711]}, a number that no other pipe has. */
  String name() throws IOException {
    return Files.readSymbolicLink(Path.of("/proc/self/fd", Integer.toString(writing))).toString();
  }

  /** Writes a short text. Does nothing when nobody reads. */
  void write(String text) throws NativeCallException {
    byte[] bytes = text.getBytes(StandardCharsets.US_ASCII);
    long written = LibC.functions().write(writing, bytes, bytes.length);
    if (written < 0 && LibC.errno() != LibC.EPIPE) {
      check(written, "write");
    }
  }

  void closeReading() {
    LibC.close(reading);
    reading = -1;
  }

  @Override
  public void close() {
    closeReading();
    LibC.close(writing);
    writing = -1;
  }
}
