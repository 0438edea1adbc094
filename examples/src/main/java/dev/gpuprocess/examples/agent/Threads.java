package dev.gpuprocess.examples.agent;

import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The threads of an agent. Each executor has a limit: clients must not be able to make threads
 * until the kernel refuses the next one.
 */
final class Threads {

  private static final Logger LOG = LoggerFactory.getLogger(Threads.class);

  private Threads() {}

  /** Returns a factory of daemon threads. */
  static ThreadFactory daemons(String name) {
    return work -> {
      Thread thread = new Thread(work, name);
      thread.setDaemon(true);
      return thread;
    };
  }

  /**
   * Returns a task that a scheduled executor runs again also when it has failed: it drops a task
   * that throws, without a word.
   */
  static Runnable repeatable(Runnable task) {
    return () -> {
      try {
        task.run();
      } catch (RuntimeException | Error e) {
        LOG.warn("{} failed, and is repeated", Thread.currentThread().getName(), e);
      }
    };
  }

  /**
   * Returns an executor that throws {@code RejectedExecutionException} when all threads are busy
   * and the queue is full. An idle thread ends after a minute.
   *
   * @param name of the threads
   * @param threads the largest number
   * @param queued the largest number of tasks that wait for a thread; may be 0
   */
  static ExecutorService bounded(String name, int threads, int queued) {
    BlockingQueue<Runnable> queue =
        queued == 0 ? new SynchronousQueue<>() : new ArrayBlockingQueue<>(queued);
    // With a queue, a pool makes threads beyond its core only when the queue is full.
    int core = queued == 0 ? 0 : threads;
    ThreadPoolExecutor made =
        new ThreadPoolExecutor(core, threads, 1, TimeUnit.MINUTES, queue, daemons(name));
    made.allowCoreThreadTimeOut(true);
    return made;
  }
}
