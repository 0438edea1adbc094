package dev.gpuprocess.criu;

import dev.gpuprocess.criu.internal.dump.PipeSize;
import dev.gpuprocess.criu.internal.process.CriuCommand;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Assumptions;

/**
 * Holds this machine's limit for pipes large, or small, for a while. Tests in several JVMs may want
 * that at the same time: each that wants it large holds a shared lock on a file that says what the
 * limit was before, and whoever can lock it alone at the end puts that back; so does the next one
 * after a JVM that was killed. For one thread of a JVM at a time.
 */
final class LargePipes implements AutoCloseable {

  private static final Path BEFORE = Path.of("/run/gpuprocess-test-pipe-max-size");

  /**
   * Null where nothing need be held. The locks of a JVM end when it closes any channel of their
   * file, so each JVM has one at a time.
   */
  private final @Nullable FileChannel before;

  private @Nullable FileLock lock;

  private LargePipes(@Nullable FileChannel before) {
    this.before = before;
  }

  /** Allows large ones to everybody. Skips the test where that cannot be done. */
  static LargePipes allow() {
    if (isOurRight() || !mayChange()) {
      Assumptions.assumeTrue(isEnough(), () -> "nobody may change " + PipeSize.LIMIT);
      return new LargePipes(null);
    }
    return held(
        (pipes, file) -> {
          pipes.lock(file, true);
          while (!isEnough()) {
            pipes.lock(file, false);
            raise(file);
            pipes.lock(file, true);
          }
        });
  }

  /** Keeps others from allowing them. Skips the test where they are always allowed. */
  static LargePipes keepSmall() {
    if (isOurRight() || !mayChange()) {
      Assumptions.assumeFalse(isEnough(), "pipes are large enough here");
      return new LargePipes(null);
    }
    return held(
        (pipes, file) -> {
          pipes.lock(file, false);
          putBack(file);
          Assumptions.assumeFalse(isEnough(), "pipes are large enough here");
        });
  }

  private interface Preparation {
    void of(LargePipes pipes, FileChannel file) throws IOException;
  }

  private static LargePipes held(Preparation preparation) {
    FileChannel file = open();
    LargePipes pipes = new LargePipes(file);
    boolean isPrepared = false;
    try {
      preparation.of(pipes, file);
      isPrepared = true;
      return pipes;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } finally {
      if (!isPrepared) {
        pipes.close();
      }
    }
  }

  private static FileChannel open() {
    try {
      return FileChannel.open(
          BEFORE, StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private void lock(FileChannel file, boolean shared) throws IOException {
    if (lock != null) {
      lock.release();
    }
    lock = file.lock(0, Long.MAX_VALUE, shared);
  }

  private static void raise(FileChannel file) throws IOException {
    if (!isEnough()) {
      file.write(ByteBuffer.wrap(limit().getBytes(StandardCharsets.US_ASCII)), 0);
      Files.writeString(PipeSize.LIMIT, Long.toString(PipeSize.NEEDED));
    }
  }

  /** Unless somebody else has changed it since. */
  private static void putBack(FileChannel file) throws IOException {
    ByteBuffer before = ByteBuffer.allocate(20);
    if (file.read(before, 0) > 0) {
      if (Long.parseLong(limit()) == PipeSize.NEEDED) {
        String text = new String(before.array(), 0, before.position(), StandardCharsets.US_ASCII);
        Files.writeString(PipeSize.LIMIT, text);
      }
      file.truncate(0);
    }
  }

  private static String limit() throws IOException {
    return Files.readAllLines(PipeSize.LIMIT).get(0).strip();
  }

  private static boolean isEnough() {
    return PipeSize.isEnough(CriuCommand.direct(Path.of("criu")));
  }

  /** Whatever the limit is. */
  private static boolean isOurRight() {
    try {
      return isEnough() && Long.parseLong(limit()) < PipeSize.NEEDED;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static boolean mayChange() {
    return Files.isWritable(PipeSize.LIMIT) && Files.isWritable(BEFORE.getParent());
  }

  @Override
  public void close() {
    if (before == null) {
      return;
    }
    try (before) {
      if (lock != null) {
        lock.release();
      }
      FileLock alone = before.tryLock();
      if (alone != null) {
        putBack(before);
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
