package dev.gpuprocess.examples.bus;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** The same done to several at the same time, by a thread each. */
final class Parallel {

  private Parallel() {}

  /**
   * What is done to one.
   *
   * @param <T> one of them
   */
  interface Action<T> {
    void on(T each) throws IOException;
  }

  /**
   * Does it.
   *
   * @param <T> one of them
   * @return seconds until all of it was done
   * @throws IOException when one of the actions has thrown something
   */
  static <T> double seconds(List<? extends T> all, Action<T> action)
      throws IOException, InterruptedException {
    List<Callable<Boolean>> calls = new ArrayList<>();
    for (T each : all) {
      calls.add(
          () -> {
            action.on(each);
            return true;
          });
    }
    ExecutorService threads = Executors.newFixedThreadPool(Math.max(1, all.size()));
    try {
      Stopwatch watch = new Stopwatch();
      List<Future<Boolean>> answers = threads.invokeAll(calls);
      double seconds = watch.seconds();
      for (Future<Boolean> answer : answers) {
        boolean unused = answer.get();
      }
      return seconds;
    } catch (ExecutionException e) {
      throw new IOException("not all of it was done: " + e.getCause(), e);
    } finally {
      threads.shutdownNow();
    }
  }
}
