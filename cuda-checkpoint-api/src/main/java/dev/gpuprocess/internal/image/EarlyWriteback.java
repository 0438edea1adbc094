package dev.gpuprocess.internal.image;

import dev.gpuprocess.internal.linux.Descriptors;
import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.internal.time.Threads;
import dev.gpuprocess.internal.time.Uninterrupted;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Starts writing CRIU's files to disk while CRIU is still writing, so that the final sync takes
 * less time. Failures are ignored: the final sync repeats the work and reports them. Closing stops
 * the thread.
 */
final class EarlyWriteback implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger(EarlyWriteback.class);
  private static final long STEP_BYTES = 8L << 20;
  private static final Duration PAUSE = Duration.ofMillis(10);
  private static final Duration PATIENCE = Duration.ofSeconds(10);

  private final Path images;
  private final Map<Path, Long> begun = new HashMap<>();
  private final Thread thread = Threads.daemon("gpuprocess-writeback", this::run);
  private final CountDownLatch closed = new CountDownLatch(1);

  private EarlyWriteback(Path images) {
    this.images = images;
  }

  /** Starts a thread for the present and future files of a directory. */
  static EarlyWriteback of(Path images) {
    EarlyWriteback writeback = new EarlyWriteback(images);
    try {
      writeback.thread.start();
    } catch (OutOfMemoryError noThread) {
      LOG.warn("{} is not written back early: no thread can be started", images);
    }
    return writeback;
  }

  private void run() {
    try {
      do {
        for (Path file : DurableFiles.list(images)) {
          begin(file);
        }
      } while (!Uninterrupted.until(
          Deadline.after(PAUSE), left -> closed.await(left, TimeUnit.NANOSECONDS)));
    } catch (IOException e) {
      LOG.debug("no early writeback", e);
    }
  }

  /** Handles memory images, which are large and to which CRIU appends. */
  private void begin(Path file) throws IOException {
    if (closed.getCount() == 0
        || !file.getFileName().toString().startsWith("pages-")
        || !Files.isRegularFile(file, LinkOption.NOFOLLOW_LINKS)) {
      return;
    }
    long from = begun.getOrDefault(file, 0L);
    long size = Files.size(file);
    if (size - from >= STEP_BYTES) {
      Descriptors.startWriteback(file, from, size - from);
      begun.put(file, size);
    }
  }

  @Override
  public void close() {
    closed.countDown();
    boolean ended =
        Uninterrupted.until(
            Deadline.after(PATIENCE),
            left -> {
              TimeUnit.NANOSECONDS.timedJoin(thread, left);
              return !thread.isAlive();
            });
    if (!ended) {
      LOG.warn("the disk of an image does not accept data: check the disk");
    }
  }
}
