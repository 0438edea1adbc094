package dev.gpuprocess.internal.engine;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;

class TogetherTest {

  private final AtomicInteger done = new AtomicInteger();

  @Test
  void severalRunAtTheSameTime() {
    CyclicBarrier all = new CyclicBarrier(3);
    Runnable meets = () -> meet(all);
    Together.run(List.of(meets, meets, meets));
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
  void aSingleOneRunsOnTheThreadOfItsCaller() {
    AtomicReference<Thread> ran = new AtomicReference<>();
    Together.run(List.of(() -> ran.set(Thread.currentThread())));
    assertSame(Thread.currentThread(), ran.get());
  }

  @Test
  void theFirstFailureIsThrownWithTheOthers_whenAllHaveEnded() {
    IllegalStateException one = new IllegalStateException("one");
    AssertionError two = new AssertionError("two");
    assertSame(
        one,
        assertThrows(
            IllegalStateException.class,
            () ->
                Together.run(
                    List.of(
                        done::incrementAndGet,
                        () -> {
                          throw one;
                        },
                        () -> {
                          throw two;
                        }))));
    assertArrayEquals(new Throwable[] {two}, one.getSuppressed());
    assertEquals(1, done.get());
  }
}
