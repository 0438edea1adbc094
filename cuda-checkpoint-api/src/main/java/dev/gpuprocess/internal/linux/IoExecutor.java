package dev.gpuprocess.internal.linux;

import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.time.IoSupplier;
import dev.gpuprocess.internal.time.Uninterrupted;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Threads for one piece of work on files. Closing drops tasks that have not begun. */
public final class IoExecutor implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger(IoExecutor.class);
  private static final Duration PATIENCE = Duration.ofSeconds(10);

  private final ExecutorService threads;

  private IoExecutor(String name, int count) {
    threads =
        Executors.newFixedThreadPool(
            count,
            work -> {
              Thread thread = new Thread(work, "gpuprocess-" + name);
              thread.setDaemon(true);
              return thread;
            });
  }

  /** One thread for each core. */
  public static IoExecutor cores() {
    return new IoExecutor("sum", Runtime.getRuntime().availableProcessors());
  }

  /** A few threads that wait for the disk, which can write the files of several syncs together. */
  public static IoExecutor disk() {
    return new IoExecutor("sync", 8);
  }

  /**
   * Threads that copy memory to memory, a file on a tmpfs included. On a machine of 16 cores 8 of
   * them filled a file of huge pages at 19 GB/s and 16 at 33.
   */
  public static IoExecutor copying() {
    return new IoExecutor("copy", Math.min(16, Runtime.getRuntime().availableProcessors()));
  }

  /**
   * Threads that move much data to or from a disk. Measured on an NVMe disk, past the page cache:
   * written at 2.1 GB/s by 1, 2.8 by 4, 1.9 by 8 and 2.1 by 16; read at 2.1 by 1 and 4, 1.5 by 8
   * and 1.3 by 16. Where there are fewer cores they wait for the disk, not for each other.
   */
  public static IoExecutor streaming() {
    return new IoExecutor("disk", 4);
  }

  /** Runs work on one of the threads. */
  public <T> CompletableFuture<T> start(IoSupplier<T> work) {
    return CompletableFuture.supplyAsync(() -> unchecked(work), threads);
  }

  private static <T> T unchecked(IoSupplier<T> work) {
    try {
      return work.get();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Waits for a task, and rethrows what it threw. */
  public static <T> T await(CompletableFuture<T> started) throws IOException {
    try {
      return started.join();
    } catch (CompletionException e) {
      if (e.getCause() instanceof UncheckedIOException io) {
        throw io.getCause();
      }
      if (e.getCause() instanceof RuntimeException own) {
        throw own;
      }
      throw e;
    }
  }

  @Override
  public void close() {
    threads.shutdownNow();
    // After a failure the caller may remove the files or unmount their file system, so this waits
    // even when it is interrupted.
    boolean ended =
        Uninterrupted.until(
            Durations.end(PATIENCE), left -> threads.awaitTermination(left, TimeUnit.NANOSECONDS));
    if (!ended) {
      LOG.warn("a read or sync of an image does not end: look at the disk");
    }
  }
}
