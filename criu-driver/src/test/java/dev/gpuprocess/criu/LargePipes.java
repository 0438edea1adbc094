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
 * Whether everybody on this machine may have a pipe as large as a lazy dump needs, for a while.
 * Tests in several JVMs may want that at the same time: each holds a shared lock on a file that has
 * the limit of before, and who can lock it alone at the end puts that back; so does the next one
 * after a JVM that was killed. For use by one thread of a JVM at a time.
 */
final class LargePipes implements AutoCloseable {

  private static final Path BEFORE = Path.of("/run/gpuprocess-test-pipe-max-size");

  /**
   * Locks end when any channel of their file is closed, so there is only this one. Null where it is
   * always so.
   */
  private final @Nullable FileChannel before;

  private @Nullable FileLock lock;

  private LargePipes(@Nullable FileChannel before) throws IOException {
    this.before = before;
    this.lock = before == null ? null : before.lock();
  }

  /** Allows it. Skips the test where nobody may. */
  static LargePipes allow() {
    try {
      if (!mayChange() && isEnough()) {
        return new LargePipes(null);
      }
      LargePipes pipes = alone();
      while (!pipes.isRaisedAndShared()) {
        pipes.lockAlone();
      }
      return pipes;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Keeps others from allowing it. Skips the test where it always is. */
  static LargePipes keepSmall() {
    try {
      LargePipes pipes = alone();
      if (isEnough()) {
        pipes.close();
        Assumptions.abort("pipes are large enough here");
      }
      return pipes;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static LargePipes alone() throws IOException {
    Assumptions.assumeTrue(mayChange(), () -> "nobody may change " + PipeSize.LIMIT);
    LargePipes pipes =
        new LargePipes(
            FileChannel.open(
                BEFORE,
                StandardOpenOption.CREATE,
                StandardOpenOption.READ,
                StandardOpenOption.WRITE));
    pipes.putBack();
    return pipes;
  }

  private static boolean mayChange() {
    return Files.isWritable(PipeSize.LIMIT) && Files.isWritable(BEFORE.getParent());
  }

  /** Between the two locks somebody may put the limit back. */
  private boolean isRaisedAndShared() throws IOException {
    if (!isEnough()) {
      String limit = Files.readAllLines(PipeSize.LIMIT).get(0);
      before.write(ByteBuffer.wrap(limit.getBytes(StandardCharsets.US_ASCII)), 0);
      Files.writeString(PipeSize.LIMIT, Long.toString(PipeSize.NEEDED));
    }
    lock.release();
    lock = before.lock(0, Long.MAX_VALUE, true);
    return isEnough();
  }

  private void lockAlone() throws IOException {
    lock.release();
    lock = before.lock();
  }

  private void putBack() throws IOException {
    ByteBuffer limit = ByteBuffer.allocate(20);
    if (before.read(limit, 0) > 0) {
      String text = new String(limit.array(), 0, limit.position(), StandardCharsets.US_ASCII);
      Files.writeString(PipeSize.LIMIT, text.strip());
      before.truncate(0);
    }
  }

  private static boolean isEnough() {
    return PipeSize.isEnough(CriuCommand.direct(Path.of("criu")));
  }

  @Override
  public void close() {
    if (before == null) {
      return;
    }
    try (before) {
      lock.release();
      FileLock alone = before.tryLock();
      if (alone != null) {
        putBack();
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
