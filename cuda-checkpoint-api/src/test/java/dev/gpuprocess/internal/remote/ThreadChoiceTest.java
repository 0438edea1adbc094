package dev.gpuprocess.internal.remote;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

@Tag("slow")
class ThreadChoiceTest {

  /** So many that the sort of the JDK detects an inconsistent order. */
  private static final int THREADS = 60;

  private static final int LOOKS = 100;

  /** The calls of the threads change all the time, and so do their ranks. */
  @Test
  void threadsMayChangeWhileTheyAreOrdered() throws InterruptedException {
    List<Thread> changing = new ArrayList<>();
    for (int i = 0; i < THREADS; i++) {
      Thread thread = new Thread(ThreadChoiceTest::changeAlways, "changing");
      thread.start();
      changing.add(thread);
    }
    try {
      int self = Math.toIntExact(ProcessHandle.current().pid());
      for (int i = 0; i < LOOKS; i++) {
        List<Integer> found = all(new ThreadChoice(self, task -> true));
        assertEquals(Set.copyOf(found).size(), found.size());
      }
    } finally {
      changing.forEach(Thread::interrupt);
      for (Thread thread : changing) {
        thread.join();
      }
    }
  }

  @Test
  void threadsThatMayNotStopAreLeftOut() {
    int self = Math.toIntExact(ProcessHandle.current().pid());
    List<Integer> all = all(new ThreadChoice(self, task -> true));
    int first = all.get(0);
    List<Integer> others = all(new ThreadChoice(self, task -> task != first));
    assertFalse(others.isEmpty());
    assertFalse(others.contains(first));
  }

  private static List<Integer> all(ThreadChoice threads) {
    List<Integer> all = new ArrayList<>();
    threads.forEachRemaining(all::add);
    return all;
  }

  private static void changeAlways() {
    while (!Thread.interrupted()) {
      LockSupport.parkNanos(TimeUnit.MICROSECONDS.toNanos(500));
      for (int i = 0; i < 1_000; i++) {
        Thread.onSpinWait();
      }
    }
  }
}
