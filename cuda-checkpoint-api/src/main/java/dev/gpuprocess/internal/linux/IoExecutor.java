package dev.gpuprocess.internal.linux;

import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.internal.time.IoSupplier;
import dev.gpuprocess.internal.time.Threads;
import dev.gpuprocess.internal.time.Uninterrupted;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A pool of threads for one operation on files. Closing drops tasks that have not started. */
public final class IoExecutor implements AutoCloseable {

  /** The threads of {@link #streaming}. */
  static final int STREAMS = 4;

  private static final Logger LOG = LoggerFactory.getLogger(IoExecutor.class);
  private static final Duration PATIENCE = Duration.ofSeconds(10);

  private final ExecutorService threads;

  private IoExecutor(String name, int count) {
    threads =
        Executors.newFixedThreadPool(count, work -> Threads.daemon("gpuprocess-" + name, work));
  }

  /** Returns one thread for each core. */
  public static IoExecutor cores() {
    return new IoExecutor("sum", Runtime.getRuntime().availableProcessors());
  }

  /**
   * Returns a few threads that sync files; the disk can write the files of several syncs at once.
   */
  public static IoExecutor disk() {
    return new IoExecutor("sync", 8);
  }

  /**
   * Returns threads that copy memory to memory or to a file on a tmpfs. On a machine of 16 cores 8
   * of them filled a file of huge pages at 19 GB/s and 16 at 33.
   */
  public static IoExecutor copying() {
    return new IoExecutor("copy", Math.min(16, Runtime.getRuntime().availableProcessors()));
  }

  /**
   * Returns threads that move much data to or from a disk. Measured on an NVMe disk, past the page
   * cache: written at 2.1 GB/s by 1, 2.8 by 4, 1.9 by 8 and 2.1 by 16; read at 2.1 by 1 and 4, 1.5
   * by 8 and 1.3 by 16. With fewer cores, they wait for the disk and not for each other.
   */
  public static IoExecutor streaming() {
    return new IoExecutor("disk", STREAMS);
  }

  /** Starts a task on one of the threads. */
  public <T> CompletableFuture<T> start(IoSupplier<T> work) {
    return CompletableFuture.supplyAsync(() -> unchecked(work), threads);
  }

  /** Starts to sync a file. */
  public CompletableFuture<Path> sync(Path file) {
    return start(
        () -> {
          Descriptors.sync(file);
          return file;
        });
  }

  private static <T> T unchecked(IoSupplier<T> work) {
    try {
      return work.get();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Waits for a task, and rethrows its exception. */
  private static <T> T await(CompletableFuture<T> started) throws IOException {
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

  /** Waits for tasks in their order, and rethrows the first exception. */
  public static <T> List<T> awaitAll(List<CompletableFuture<T>> started) throws IOException {
    List<T> results = new ArrayList<>();
    for (CompletableFuture<T> each : started) {
      results.add(await(each));
    }
    return results;
  }

  @Override
  public void close() {
    threads.shutdownNow();
    // After a failure the caller may remove the files or unmount their file system, so this waits
    // even when it is interrupted.
    boolean ended =
        Uninterrupted.until(
            Deadline.after(PATIENCE), left -> threads.awaitTermination(left, TimeUnit.NANOSECONDS));
    if (!ended) {
      LOG.warn("a read or sync of an image hangs: check the disk");
    }
  }
}
