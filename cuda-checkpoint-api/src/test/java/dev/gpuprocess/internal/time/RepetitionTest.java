package dev.gpuprocess.internal.time;

import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Work at an interval: one run at a time, no queue, and no exception ends the repetition. */
class RepetitionTest {

  private static final Duration SOON = Duration.ofMillis(5);
  private static final Duration NEVER = Duration.ofDays(1);
  private static final Duration PATIENCE = Duration.ofSeconds(50);

  private final CountingWork work = new CountingWork();
  private Repetition repetition;

  /** Counts the calls, and waits or throws on request. */
  private static final class CountingWork implements Repetition.Work {

    private final AtomicInteger runs = new AtomicInteger();
    private final AtomicInteger leftOut = new AtomicInteger();
    private final AtomicInteger atOnce = new AtomicInteger();
    private final List<Boolean> ends = new CopyOnWriteArrayList<>();
    private final List<Boolean> interrupted = new CopyOnWriteArrayList<>();
    private volatile CountDownLatch gate = new CountDownLatch(0);
    private volatile Runnable then = () -> {};
    private volatile boolean over;

    @Override
    public void run(Repetition by) {
      assertEquals(1, atOnce.incrementAndGet());
      try {
        interrupted.add(Thread.currentThread().isInterrupted());
        runs.incrementAndGet();
        gate.await();
        then.run();
      } catch (InterruptedException e) {
        throw new IllegalStateException(e);
      } finally {
        atOnce.decrementAndGet();
      }
    }

    @Override
    public void leftOut() {
      leftOut.incrementAndGet();
      then.run();
    }

    @Override
    public void missed(long count) {
      assertTrue(count > 0);
    }

    @Override
    public boolean isOver() {
      return over;
    }

    @Override
    public void ended(boolean closed) {
      assertEquals(0, atOnce.get());
      ends.add(closed);
    }
  }

  private void start(Duration interval) {
    repetition = new Repetition(work, interval, "test of repetition");
    repetition.start();
  }

  @AfterEach
  void end() {
    work.gate.countDown();
    repetition.close();
    assertTrue(repetition.awaitEnd(PATIENCE));
    assertEquals(1, work.ends.size(), "called once");
    assertEquals(0, work.atOnce.get());
  }

  @Test
  void aRunThatIsDueDuringAnotherIsSkipped() {
    work.gate = new CountDownLatch(1);
    start(SOON);
    await().atMost(PATIENCE).until(() -> work.leftOut.get() >= 3);
    assertEquals(1, work.runs.get());
    work.gate.countDown();
    await().atMost(PATIENCE).until(() -> work.runs.get() >= 3);
  }

  @Test
  void noExceptionEndsTheRepetition() {
    work.then =
        () -> {
          Thread.currentThread().interrupt();
          if (work.runs.get() < 3) {
            throw new AssertionError("the work of a test");
          }
        };
    start(SOON);
    await().atMost(PATIENCE).until(() -> work.runs.get() >= 3);
    assertEquals(0, work.interrupted.stream().filter(flag -> flag).count());
    assertEquals(List.of(), work.ends);
  }

  @Test
  void itEndsWithItsSubject() {
    start(NEVER);
    work.over = true;
    await().atMost(PATIENCE).until(() -> work.ends.equals(List.of(false)));
    assertTrue(repetition.isOver());
    assertFalse(repetition.tryTake());
  }

  @Test
  void closingWaitsForTheRunUnderWayUpToALimit() {
    work.gate = new CountDownLatch(1);
    start(SOON);
    await().atMost(PATIENCE).until(() -> work.runs.get() == 1);
    repetition.close();
    assertFalse(repetition.awaitEnd(Duration.ofMillis(1)));
    assertEquals(List.of(), work.ends);
    work.gate.countDown();
    assertTrue(repetition.awaitEnd(PATIENCE));
    assertEquals(List.of(true), work.ends);
    assertEquals(1, work.runs.get());
  }

  @Test
  void theWorkMayCloseTheRepetition() {
    work.then =
        () -> {
          repetition.close();
          assertFalse(repetition.awaitEnd(PATIENCE));
        };
    start(SOON);
    await().atMost(PATIENCE).until(() -> work.ends.equals(List.of(true)));
  }

  @Test
  void aCallerMayTakeThePlaceOfTheWorker() {
    start(SOON);
    await().atMost(PATIENCE).until(repetition::tryTake);
    int runs = work.runs.get();
    int leftOut = work.leftOut.get();
    await().atMost(PATIENCE).until(() -> work.leftOut.get() >= leftOut + 2);
    assertEquals(runs, work.runs.get());
    repetition.release();
    await().atMost(PATIENCE).until(() -> work.runs.get() > runs);
  }

  @Test
  void aPauseEndsWithTheRepetition() {
    start(NEVER);
    assertTrue(repetition.pause(Duration.ofMillis(1)));
    repetition.close();
    assertFalse(repetition.pause(NEVER));
  }
}
