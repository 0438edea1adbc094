package dev.gpuprocess.internal.engine;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.gpuprocess.internal.call.BoundedCall;
import java.util.List;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;

class ParallelTest {

  private final AtomicInteger done = new AtomicInteger();

  @Test
  void runsSeveralAtTheSameTime() {
    CyclicBarrier all = new CyclicBarrier(3);
    Parallel.forEach(List.of(1, 2, 3), each -> meet(all));
    assertEquals(3, done.get());
  }

  private void meet(CyclicBarrier all) {
    try {
      all.await(30, TimeUnit.SECONDS);
      done.incrementAndGet();
    } catch (InterruptedException | BrokenBarrierException | TimeoutException e) {
      throw new IllegalStateException(e);
    }
  }

  @Test
  void runsASingleOneOnTheThreadOfTheCaller() {
    AtomicReference<Thread> ran = new AtomicReference<>();
    Parallel.forEach(List.of(1), each -> ran.set(Thread.currentThread()));
    assertSame(Thread.currentThread(), ran.get());
  }

  @Test
  void throwsTheFirstFailureWithTheOthersWhenAllHaveEnded() {
    IllegalStateException one = new IllegalStateException("one");
    AssertionError two = new AssertionError("two");
    assertSame(
        one,
        assertThrows(
            IllegalStateException.class,
            () ->
                Parallel.<Runnable>forEach(
                    List.of(
                        done::incrementAndGet,
                        () -> {
                          throw one;
                        },
                        () -> {
                          throw two;
                        }),
                    Runnable::run)));
    assertArrayEquals(new Throwable[] {two}, one.getSuppressed());
    assertEquals(1, done.get());
  }

  /** A step that goes on would lock its member after the rollback. */
  @Test
  void waitsForTheOthersIfAThreadCannotBeStarted() {
    OutOfMemoryError none = new OutOfMemoryError("unable to create native thread");
    AtomicInteger started = new AtomicInteger();
    Executor threads =
        run -> {
          if (started.incrementAndGet() == 2) {
            throw none;
          }
          BoundedCall.THREADS.execute(run);
        };
    assertSame(
        none,
        assertThrows(
            OutOfMemoryError.class,
            () ->
                Parallel.forEach(
                    List.of(1, 2, 3), each -> done.incrementAndGet(), each -> {}, threads)));
    assertEquals(2, done.get());
  }
}
