package dev.gpuprocess.examples.bus;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Runs an action for several objects at the same time, by a thread each. */
final class Parallel {

  private Parallel() {}

  /**
   * An action that may fail.
   *
   * @param <T> the type of its object
   */
  interface Action<T> {
    void on(T each) throws IOException;
  }

  /**
   * Runs the action for each object.
   *
   * @param <T> the type of the objects
   * @return the seconds until all actions were done
   * @throws IOException if an action has failed
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
      throw new IOException("an action failed: " + e.getCause(), e);
    } finally {
      threads.shutdownNow();
    }
  }
}
