package dev.gpuprocess;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.error.OperationInProgressException;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Calls that outlive their deadline. */
@Tag("jdk")
class BoundedCallTest {

  private static final int MOST = 64;
  private static final Duration HASTE = Duration.ofMillis(1);

  @Test
  void run_asManyHangAsAreAllowed_refusesMoreUntilTheyReturn() throws Exception {
    CountDownLatch end = new CountDownLatch(1);
    AtomicInteger late = new AtomicInteger();
    for (int i = 0; i < MOST; i++) {
      assertThrows(
          TimeoutException.class,
          () ->
              BoundedCall.run(
                  "test", HASTE, () -> awaited(end), (value, e) -> late.addAndGet(value)));
    }
    assertEquals(MOST, GpuCheckpoints.abandonedCalls());
    OperationInProgressException refused =
        assertThrows(
            OperationInProgressException.class,
            () -> BoundedCall.run("one more", HASTE, () -> 1, (value, e) -> {}));
    assertTrue(refused.getMessage().contains(Integer.toString(MOST)), refused.getMessage());
    end.countDown();
    await().atMost(20, SECONDS).until(() -> GpuCheckpoints.abandonedCalls() == 0);
    assertEquals(MOST, late.get(), "they count until they are undone");
    assertEquals(7, BoundedCall.run("test", Duration.ofSeconds(20), () -> 7, (value, e) -> {}));
  }

  @Test
  void run_interrupted_waitsForTheAnswerAndStaysInterrupted() throws Exception {
    Thread.currentThread().interrupt();
    assertEquals(7, BoundedCall.run("test", Duration.ofSeconds(20), () -> 7, (value, e) -> {}));
    assertTrue(Thread.interrupted());
  }

  private static int awaited(CountDownLatch end) {
    try {
      end.await();
      return 1;
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }
}
