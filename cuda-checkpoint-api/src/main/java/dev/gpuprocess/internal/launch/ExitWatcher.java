package dev.gpuprocess.internal.launch;

import dev.gpuprocess.internal.time.Threads;
import java.util.concurrent.CompletableFuture;

/**
 * The thread that waits for the exit of a process. It is started before the process is started or
 * restored: if the machine allows no more threads, no process runs whose exit would not be seen.
 */
final class ExitWatcher implements AutoCloseable {

  private final CompletableFuture<Runnable> work = new CompletableFuture<>();
  private final Thread thread = Threads.daemon("gpuprocess-process", () -> work.join().run());

  private ExitWatcher() {}

  /**
   * Starts the thread, which waits for its process or for the close.
   *
   * @throws OutOfMemoryError when the machine allows no more threads
   */
  static ExitWatcher start() {
    ExitWatcher watcher = new ExitWatcher();
    watcher.thread.start();
    return watcher;
  }

  /** Gives the thread its process. */
  void watch(int pid, Runnable awaitEnd) {
    thread.setName("gpuprocess-process-" + pid);
    work.complete(awaitEnd);
  }

  /** Ends the thread if it has no process. */
  @Override
  public void close() {
    work.complete(() -> {});
  }
}
